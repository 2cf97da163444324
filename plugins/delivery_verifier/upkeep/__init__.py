"""Upkeep: the doctor, the retention of runs, and bundles of evidence without secrets.

Uses orchestration, planning, cluster, store, host and model. Known weakness: redaction finds known
values and patterns; it misses a secret that matches neither.
"""

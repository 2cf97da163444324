"""Summaries: one query over the ledger, and the small tables that follow from it without Spark.

Owns: timeline, latencies, silences, and the exposure of attempts to faults.
May use: matching, literals, schemas.
Weak spot: a latency is known only up to the width of its bucket (`timeline.QUANTILE_ERROR`).
"""

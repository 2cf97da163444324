"""Catalogue runs: many scenarios one after another, with a record of every attempt.

Owns the selection, the loop, the direct runner and the results. Uses run, pages, planning, catalogue, cluster,
expectations, spark_jobs, store, host and model. Known weakness: the loop runs one scenario at a time, for one run holds
the host.
"""

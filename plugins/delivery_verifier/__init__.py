"""Verifies what Kafka's delivery settings really promise: load, faults, reconciliation, verdict.

A record's way: `load` sends it to `cluster` while `faults` acts, `spark_jobs` reads it back and matches it with the
ledger, `expectations` evaluates the books, `judgement` gives the verdict, `pages` show it; `store` keeps it between the
steps.
"""

__version__ = "0.1.0"

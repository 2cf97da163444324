"""Verifies what Kafka's delivery settings really promise: load, faults, reconciliation, verdict.

Every name below is a package. `run` calls the steps of a run in their order:

* `load` sends records to the brokers of `cluster`, and keeps a ledger of all attempts. Meanwhile, `faults` injects
  faults.
* `spark_jobs` reads the topics and matches their records with the ledger. The result is the books: counts per arm.
* `expectations` evaluates the books.
* `judgement` gives the verdict. The verdict rests on `contract`, which says what the settings promise.
* `pages` shows the verdict to people.

`store` keeps the output of each step in the run directory, where the next steps read this output.
"""

__version__ = "0.1.0"

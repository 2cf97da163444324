"""Verifies what Kafka's delivery settings really promise: load, faults, reconciliation, verdict.

Every name below is a package. A room is a package directly inside this package, or one of the packages `spark_jobs` and
`expectations`. The line `May use` of a room lists every room that it may import. `run` calls the steps of a run in
their order, and so leads each record along this way:

* `load` sends the record to the brokers of `cluster`, and writes each attempt into a ledger. Meanwhile `faults` injects
  faults.
* `spark_jobs` reads the record back from its topic, and matches it with the ledger. The result is the books: counts per
  arm.
* `expectations` evaluates the books.
* `judgement` gives the verdict. Here the way ends. `judgement` uses `contract`, which says what the settings promise.
  `pages` shows the verdict to people.

`store` keeps the output of each step in the run directory, where the next steps read this output.

Terms that many docstrings use: a run has *arms*, each with a topic and producers of its own. A *subject* is an arm
under test. A *control* is an arm that is compared with the subjects. In the *canary*, the verifier plants errors that
it must find. All arms but the canary carry load. A *claim* is what the user claims of an arm, e.g. `exactly_once`. An
attempt to send a record is *reported* once the client says that the record was acknowledged, or with acks=0 that it was
sent. An injected fault *bites* when it takes effect. The run must prove that each fault bit. A *doubt* is a reason to
give no verdict. A *law* is an equation that the counts in the books must satisfy.
"""

__version__ = "0.1.0"

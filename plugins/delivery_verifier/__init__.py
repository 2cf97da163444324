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

Terms that many docstrings use:

* A run has *arms*, each with a topic and producers of its own. A *subject* is an arm under test. A *control* is an
  arm that is compared with the subjects. In the *canary*, the verifier plants errors that it must find. All arms but
  the canary carry load. A *profile* is a set of delivery settings. A *claim* is what the user claims of an arm, e.g.
  `exactly_once`.
* An *attempt* is one send of a record. It is *reported* once the client says that the record was acknowledged, or
  with acks=0 that it was sent. It is *settled* once its outcome is known. The *header* of a record is the first part
  of the record's value; records have no Kafka headers. An *anomaly* is a kind of error, e.g. LOST. A *case* is one
  attempt or record that shows an anomaly.
* A *fault plan* has steps, each with a trigger, an action and a target. A *cycle* is one pass through the fault plan.
  An *injection* is a fault that was done. It *bites* when it takes effect, which must be proven. It *exposes* the
  attempts that it could hurt, and it *hurts* an arm if cases of the arm belong to it.
* An *application* is a program under test that consumes an arm's topic and applies the records. Its processes are
  called *members*. A *life* of a member is the time from one start of its process to the end of this process. A member
  has a record *in hand* from the time when it gets the record until its work on the record is finished.
* A *marker* is a record that the verifier writes after the load. The *snapshot* is the range of offsets of each
  partition that is judged. It ends at a marker.
* An *observation* is a change in the cluster that the observer saw. A *disturbance* is an event in the cluster, e.g. a
  change of leader. It may *excuse* cases that it explains.
* A *ruling* forbids or permits an anomaly. The *tolerance* is the number of cases that is allowed. A *law* says which
  two counts in the books must be equal, in each arm or partition. A *doubt* is a reason to give no verdict. A *finding*
  is a ruling with its number of cases.
"""

__version__ = "0.1.0"

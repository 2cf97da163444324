"""Verifies what Kafka's delivery settings really promise: load, faults, reconciliation, verdict.

Every name below is a package. A room is a package directly inside this package, or one of the packages `spark_jobs` and
`expectations`. The line `May use` of a room lists every room that it may import. `pipeline` calls the steps of a run in
their order. A record passes these rooms one after the other:

* `load` sends the record to the brokers of `cluster`, and writes each attempt into a ledger. Meanwhile `faults` injects
  faults.
* `spark_jobs` reads the record back from its topic, and matches the record with the ledger. The result is the counts:
  counts per arm.
* `expectations` evaluates the counts.
* `verdict` gives the verdict. `verdict` uses `contract`, which says what the settings promise. `reporting` shows
  the verdict to people.

`run_directory` keeps the output of each step in the run directory, where the next steps read this output.

Terms that many docstrings use:

* A run has *arms*. Each arm has a topic and producers of its own. A *subject* is an arm under test. A *control* is an
  arm that is compared with the subjects. The *canary* is an arm in which the verifier plants errors that it must find.
  Every arm except the canary carries load. A *profile* is a set of delivery settings. A *claim* is what the user claims
  of an arm, e.g. `exactly_once`.
* An *attempt* is one send of a record. An attempt is *reported* once the client says that the record was acknowledged,
  or with acks=0 that it was sent. An attempt is *settled* once its outcome is known. The *header* of a record is the
  first part of the record's value; records have no Kafka headers. An *anomaly* is a kind of error, e.g. LOST. A *case*
  is one attempt or record that shows an anomaly.
* A *fault plan* has steps, each with a trigger, an action and a target. A *cycle* is one pass through the fault plan.
  An *injection* is a fault that was done. An injection *takes effect* when it takes effect, which must be proven. An
  injection *exposes* the attempts that it could hurt. An injection *hurts* an arm if cases of the arm belong to the
  injection.
* An *application* is a program under test that consumes an arm's topic and applies the records. The processes of an
  application are called *members*. A *incarnation* of a member is the time from one start of its process to the end of
  this process. A member has a record *in progress* from the time when it gets the record until its work on the record
  is finished.
* A *marker* is a record that the verifier writes after the load. The *snapshot* is the range of offsets of each
  partition that is judged. The range ends at a marker.
* An *observation* is a change in the cluster that the observer saw. A *disturbance* is an event in the cluster, e.g. a
  change of leader. A disturbance may *explain* the cases that it explains.
* A *ruling* forbids or permits an anomaly. The *tolerance* is the number of cases that a ruling allows. A *invariant*
  names two counts in the counts that must be equal, in each arm or in each partition. A *doubt* is a reason to give no
  verdict. A *finding* is a ruling together with the number of cases that were found.
"""

__version__ = "0.1.0"

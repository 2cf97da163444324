"""The anomalies of effects, with their words: what can go wrong when an application applies records.

These anomalies are also called the *kinds of effects*. Terms, beside those of `model.anomalies`:

* An *effect* is one application of a record: if an application applies a record twice, there are two effects.
* A *visible copy* is a copy of a record in the log. If the arm writes transactions, only copies in committed
  transactions are visible.
* A *marker* is a record that the verifier writes to a partition after the load. The snapshot of a partition ends at a
  marker. Records of the load may stand behind an earlier marker.
* A partition is *drained* once the application has applied the marker at the end of the snapshot, or a later marker.
  The application's group must also have committed all offsets before the end of the snapshot. This second condition is
  left out if the application keeps its offsets elsewhere.
"""

from __future__ import annotations

from delivery_verifier.model.anomaly_kind import AnomalyKind

SKIPPED = AnomalyKind(
    definition="An attempt with a visible copy in a drained partition, which the application never applied.",
    name="Skipped by the application",
    participle="skipped",
    record_that_is="in the log and was never applied",
    records_that_are="in the log and were never applied",
    promise="What the group has committed was applied: a record is let go of only when its effect is there.",
    promised_by="Apache Kafka documentation, design: message delivery semantics (at least once)",
    expectation="ExpectNoSkippedRecords",
    share_of="log_records",
    telling=11,
    permitted_with="applications",
    forbidden_by=("at_least_once", "exactly_once"),
    of_effects=True,
)
REAPPLIED = AnomalyKind(
    definition="An attempt that was applied more often than it has visible copies, or more than once from the "
    "same offset, and has a visible copy. An attempt that stands in the log twice and is applied twice is "
    "carried, and no case.",
    name="Applied more than once",
    participle="reapplied",
    record_that_is="applied more often than it stands in the log",
    records_that_are="applied more often than they stand in the log",
    promise="A record whose offset was committed before its effect, or together with it, is not delivered again.",
    promised_by="Apache Kafka documentation, design: message delivery semantics (at most once); KIP-98 and KIP-447 "
    "(with its effect)",
    expectation="ExpectNoReappliedRecords",
    share_of="log_records",
    telling=12,
    permitted_with="applications",
    forbidden_by=("at_most_once", "exactly_once"),
    of_effects=True,
)
GHOST = AnomalyKind(
    definition="Applied, though no visible copy exists: the record was lost by the log, was aborted, or was "
    "never sent.",
    name="Applied, but not in the log",
    participle="applied without being in the log",
    record_that_is="applied though it is not in the log that consumers see",
    records_that_are="applied though they are not in the log that consumers see",
    promise="A consumer is given only what stays in the log: records below the high watermark and, with "
    "read_committed, of committed transactions.",
    promised_by="Apache Kafka documentation, design: replication (committed records); KIP-98",
    expectation="ExpectNoGhostRecords",
    share_of="log_records",
    telling=13,
    permitted_with="applications",
    forbidden_by=("exactly_once",),
    of_effects=True,
)
OVERTAKEN = AnomalyKind(
    definition="First applied after a record with a higher offset of the same partition.",
    name="Applied out of order",
    participle="overtaken",
    record_that_is="applied behind a record that stands after it in the log",
    records_that_are="applied behind records that stand after them in the log",
    promise="A partition is read in the order of its offsets, and applied in the order in which it is read.",
    promised_by="Apache Kafka documentation, introduction: guarantees",
    expectation="ExpectNoOvertakenRecords",
    share_of="log_records",
    telling=14,
    permitted_with="applications",
    forbidden_by=("ordered",),
    of_effects=True,
    can_be_hidden=True,
)

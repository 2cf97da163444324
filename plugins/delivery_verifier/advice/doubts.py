"""What to do about each doubt of a verdict. The name of a doubt decides it, and for a name without an advice of its own
the kind."""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.model.verdict import RunVerdict

_JUDGE_AGAIN = "Repeat kdv reconcile on this directory; if the doubt stays, it is the verifier's bug."
_RUN_AGAIN = "Run again; what this run wrote down cannot be made whole."

ADVICE = {
    "canary_wrong": f"Use no figure of this run: the check missed, or invented, a planted error. {_JUDGE_AGAIN}",
    "anomaly_unproven": f"The canary of a run without applications has no such case to show that the count is right. "
    f"{_JUDGE_AGAIN}",
    "read_incomplete": "The topics were not read completely. While the brokers are still there, repeat the "
    "reconciliation; else run again.",
    "log_moved": "Something wrote to the topics after the snapshot. Find that writer (a producer left alive, "
    "another client), stop it and run again.",
    "ledger_incomplete": f"What was sent is not completely on record (full disk, killed task?). {_RUN_AGAIN}",
    "counts_unbalanced": "Two counts that were made independently disagree; both stand in the report under the "
    "invariants "
    f"of the counts. {_JUDGE_AGAIN}",
    "invariant_missing": f"An invariant was not checked. {_JUDGE_AGAIN}",
    "table_missing": f"A table of the counts is missing. {_JUDGE_AGAIN}",
    "partition_missing": f"A part of the topics stands nowhere in the counts. {_JUDGE_AGAIN}",
    "rows_unplanned": f"The counts hold rows that are not in the plan. {_JUDGE_AGAIN}",
    "nulls": f"A table holds gaps where figures must be. {_JUDGE_AGAIN}",
    "expectation_not_evaluated": f"validation.json says which expectation raised or is missing. {_JUDGE_AGAIN}",
    "expectation_alarm": f"An expectation contradicts the very count it was read off. {_JUDGE_AGAIN}",
    "observer_blind": f"The observer did not see the cluster, so a disturbance may be missing. {_RUN_AGAIN}",
    "brokers_unwatched": "Ask who runs the cluster what happened to its brokers at that time: a restart, a crash, or a "
    "loss of power. Then run again while nothing is done to them.",
    "command_unproven": "Look at what the command printed and how it ended (`ordered` in injections.json), and at the "
    "broker that was meant: is it back? Correct the command, and run again.",
    "commits_unwatched": "Ask who runs the cluster whether brokers that keep __consumer_offsets or __transaction_state "
    "had an outage. Run again: the next group is kept elsewhere, and a shorter run is less likely to be compacted. Or "
    "run on a cluster of the verifier's own, which is watched.",
    "clock_stepped_back": "Times of this run cannot be compared. Let the time service slew this host's clock and not "
    "step it, and run again.",
    "exposure_missing": f"How much the fault could have hurt was not counted. {_JUDGE_AGAIN}",
    "fault_took_no_effect": "The fault took no effect, so it proved nothing. Compare the plan's target and trigger "
    "with "
    "the faults and their proof in the report, then run again.",
    "fault_not_healed": "The cluster did not recover in time. Look at the brokers' logs, give the plan more time, "
    "and run again. With the fault observe, leaders that have not moved back count, too: let the operator elect the "
    "preferred ones (kafka-leader-election.sh).",
    "did_not_show": "Chance decides whether this arm shows what it must, and it did not in this run: that proves "
    "nothing. Run again.",
    "nothing_broken": "Run again, wait for the line that says so, and break a broker then: kill, stop or freeze one "
    "that leads a partition of this run, e.g. with `kubectl delete pod`. What was broken before the load, after it, or "
    "so briefly that the cluster did not notice does not count. --duration-s makes the time longer.",
    "nothing_reported": "No record was acknowledged. Check that the settings can be met at all (in-sync replicas, "
    "timeouts), then run again.",
    "nothing_committed": "Not one transaction was committed. Look at the errors in the ledger, check that the "
    "settings can be met (transaction.timeout.ms, in-sync replicas), then run again.",
    "nothing_aborted": "Transactions are aborted on purpose, the second of each producer first, to see that nothing "
    "of them is visible. Send more records, or from fewer producers, and run again.",
    "too_little_reported": "Almost nothing was acknowledged. Look at the errors in the ledger, check that "
    "the settings can be met, then run again.",
    "unexplained": "Something is wrong on a partition where, or at a time when, nothing happened that would explain "
    "it: "
    "treat it as a finding. Look at its cases and at the brokers' logs, and run again.",
    "bound_unseen": "How far the log of a new leader reached, or when copies were appended, was not written down, so "
    "it is not known whether a disturbance explains these cases: run again.",
    "log_unreadable": "Bytes of the leader's log have changed on its disk: treat it as a finding. Look at "
    "the leader's disk and log around these offsets, and for the records in the data of a follower. If the run started "
    "the brokers, its workspace keeps both.",
    "replicas_differ": "A follower holds other records than its leader: treat it as a finding. Look at the brokers' "
    "data and logs around these offsets (an unclean restart, a damaged disk, a bug of Kafka), and run again. If the "
    "run started the brokers, its workspace keeps both.",
    "replica_not_read": "What this replica holds is unknown. Find out why its broker did not answer or lagged behind "
    "(its log, a busy host), and run again.",
    "open_transaction": "Consumers with read_committed stand still there: treat it as a finding about the cluster. If "
    "the run started the brokers, its workspace keeps their data and logs. An ongoing transaction ends by its "
    "producer, or at its timeout. Kafka's `kafka-transactions.sh abort` ends a hanging one: name its topic, partition "
    "and start offset.",
    "load_ended_early": "A fatal client error ended a producer before its time: the doubt says what it means. Correct "
    "the permissions or settings that it names, or find out what happened to the leader's log, and run again.",
    "load_incomplete": "Fewer records were sent than planned. Raise the deadline or lower the number of records, and "
    "run again.",
    "load_over_too_early": "Raise the number of records (or the planned duration), so that the load outlasts the "
    "fault, and run again.",
    "too_little_exposed": "Too few records were under way around the fault. Raise the rate, or let the fault fire "
    "later, and run again.",
    "group_never_committed": "The program keeps its offsets elsewhere. A run can show that it breaks its promise, and "
    "cannot show that it holds. Let it also commit to the group what it has stored, e.g. as Flink does at checkpoints.",
    "not_exercised": "The fault met no record under way, and hurt no arm. Raise the rate, repeat the fault in more "
    "cycles, or add a weak control, and run again.",
    "too_few_answered": "Where nothing disturbed the cluster, less than half of the attempts were acknowledged or "
    "sent. Look at the errors in the ledger, check that the settings can be met (timeouts, in-sync replicas), then run "
    "again.",
    "effects_incomplete": f"Effects of the application are missing, or were not counted. {_RUN_AGAIN}",
    "skipped_too_early": "The count of SKIPPED is wrong: it has records to which the application had not come. "
    f"{_JUDGE_AGAIN}",
    "effects_torn": "Effects of your application name no record, and may be the records that count as skipped. Let "
    "each process write whole lines to a file of its own, keep logs apart, and run again.",
    "not_drained": "The application did not reach the end of these partitions, so it is not known what it would "
    "have applied. Look at the journal and at the errors of its members, and run again.",
    "application_idle": "The application did its work only after the load: no fault met it. Look in the journal for "
    "when its members were given their partitions, and run again.",
    "effects_unparsed": "The application applied something that names no record of the arm, which may be a record "
    "applied once more. Look at these rows of effects/, and run again.",
    "group_log_lacks_commit": "The brokers accepted a commit, and do not have it. Look at the logs of the brokers "
    "that led __consumer_offsets, and run again.",
    "group_log_foreign_writer": "Somebody else took part in the group of the application, so it is not known who "
    "caused its "
    "effects. Find that client, or the operator who set offsets, and run again.",
    "group_log_disagrees": "The coordinator of the group answers something else than its own log says: treat it as a "
    "finding. Look at the log of this broker, and run again.",
    "output_cut_off": "The cluster has lost records of the output topic that it had kept, so it is not known what the "
    "application applied. Find out who deleted records or elected a leader, and run again.",
    "output_unproven": "The leader of the output topic changed in a way that may have cost it records. Look for its "
    "cause in the logs of the brokers (a busy host, an operator), and run again.",
    "output_held_back": "A transaction in the output topic did not end, so it is not known what the application "
    "applied behind it. Find its producer, or end the transaction with `kafka-transactions.sh abort`, and run again.",
    "foreign_writer_in_topic": "Another client wrote to the topic, or nothing readable is left of a record that was "
    "never "
    "acknowledged. Find that client, stop it and run again; if there is none, treat the records as damaged.",
    "two_acks_one_offset": "A log has one record at an offset, so at most one of these acknowledgements is right: "
    "treat it as a finding. Look at both records, at the client's log, and at the brokers' logs for a truncation.",
    "ledger_partial": "Let the application write down every send, also those without an answer, and say so in the "
    "ledger's first line (complete), or with --complete.",
    "ledger_cut": "Attempts at the end of the ledger may be missing. Audit a ledger whose writer has ended by itself.",
    "settings_unknown": "Give the settings of the producer with --producer-config.",
    "cluster_not_observed": "These settings permit what was found after such a disturbance. Look in the brokers' logs "
    "for one at that time, or claim more than the settings promise with --claim.",
    "no_markers": "Let the application write down the partition and the offset that were acknowledged.",
    "others_write": "Audit a topic to which only this application writes.",
    "values_not_hashed": "Let the application write down a checksum of each value (value_crc32 or value_sha256).",
    "expired_unknown": "Audit before the topic's retention removes records, or write down the acknowledged offsets.",
    "order_unknown": "Let the application number what it sends (producer and sequence), or claim less with --claim.",
    "transaction_unknown": "Write down how each transaction ended (`transaction_outcome`): what was committed must not "
    "stand in an aborted transaction.",
    "transaction_open": "Audit when all transactions have ended. Kafka's `kafka-transactions.sh find-hanging` finds "
    "one that does not end by itself.",
    "expired": "Audit before the topic's retention removes records.",
    "attempts_guessed": "Let the application give each attempt an id of its own, or write down the offsets of all "
    "attempts that were acknowledged.",
    "copies_not_examined": "Set enable.idempotence, or claim more with --claim if these copies are not acceptable.",
    "late_unknown": "Look whether the producer was started again. If it was not, treat it as a finding: a broker must "
    "refuse such a late record.",
    "complete_contradicted": "Look what became of the missing numbers or lines. Write down every send, also those that "
    "the client refused, with the outcome `failed`.",
    "identity_missing": "Look at records without an identity, and correct --identity or the application. If they are "
    "of others, say so with --others-write.",
    "topic_younger": "Look whether the topic was deleted and created anew after these acknowledgements.",
    "unproven": "These cases may have the other explanation that the doubt names. Exclude it, and audit again.",
    "not_planted": "The canary could not have such a case, so nothing shows that one would be found. Audit a topic "
    "with more records.",
    "ack_past_the_end": "The log ends before an offset that was acknowledged. Look whether this is the ledger of this "
    "topic, and whether the topic was created anew, or its log was cut off.",
    "not_quiet": "The topic changed while it was looked at. Stop what writes to it, and audit again.",
    "isr_not_full": "Acknowledged records may not be visible yet. Wait until all replicas are in sync, and audit "
    "again.",
    "canary_too_small": "Look at the identity: for too few records it finds a claim of the ledger. If the topic is so "
    "small, audit a larger one.",
    "claims_missing": f"Claims are missing in the counts. {_JUDGE_AGAIN}",
    "unplanned_disturbance": "Something else than the plan disturbed the cluster. Find its cause (a busy host, a "
    "neighbour's restart), and run again on a quiet host.",
}
"""Maps the name of a doubt, up to the first colon in the name, to advice on what to do about the doubt."""
BY_KIND = {
    "checker": f"The check itself is in question: neither HELD nor VIOLATED may be read off this. {_JUDGE_AGAIN}",
    "coverage": "Too little was tested. Run again with more records, a longer load or more cycles of the fault. (A "
    "scenario of the catalogue fixes all three: take its profile and its fault instead.)",
}
"""Maps the kind of a doubt to advice on what to do. This advice counts only if ADVICE does not contain the doubt's
name."""


def advice(kind: str, name: str) -> str:
    """Returns the advice on what to do about the doubt `name` of the kind `kind`.

    ADVICE has advice by the part of `name` before the first colon, e.g. `counts_unbalanced` in
    `counts_unbalanced:log_sum`. If ADVICE lacks this part, the advice comes from BY_KIND. An unknown kind is treated
    like `checker`.
    """
    return ADVICE.get(name.partition(":")[0], BY_KIND.get(kind, BY_KIND["checker"]))


def with_remedies(verdict: RunVerdict) -> RunVerdict:
    """Returns the verdict in which each doubt has its remedy. It reads no file, and cannot fail."""
    arms = [
        replace(arm, doubts=[replace(doubt, remedy=advice(doubt.kind, doubt.name)) for doubt in arm.doubts])
        for arm in verdict.arms
    ]
    return replace(verdict, arms=arms)

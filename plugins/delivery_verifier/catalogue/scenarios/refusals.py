"""Refused writes: whether a record is in the log after the broker answered the record's request with an error.

The ENTRIES of the module `replication` include the entries of this module. Therefore catalogue.json, the file with the
results of a catalogue run, lists these entries under the kind `replication`.
"""

from __future__ import annotations

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    RETRIES_OFF_IMPATIENT,
    SETTLED,
    SHRUNK,
    after,
    control,
    exactly,
    scripted,
    step,
    subject,
)
from delivery_verifier.model.fault_plan import FaultPlan

_LOAD = scripted(50)
_SAFE = control("safe", "exactly_once", exactly(acked=200))
_TOPICS = "Apache Kafka documentation, topic configurations"

_REFUSED = Entry(
    name="retries_off.refused",
    title="NotEnoughReplicas: refused means not written, and the client cannot prove it",
    promise="Below min.insync.replicas a leader refuses acks=all before it writes anything: without retries the "
    "application gets NOT_ENOUGH_REPLICAS, and none of those records turns up. With retries the producer "
    "waits until enough replicas are back, and all of them do.",
    source=f"{_TOPICS}: min.insync.replicas",
    tags=("promises",),
    arms=(subject("retries_off", "exactly_once", exactly(indeterminate=50, resolved_absent=50)), _SAFE),
    load=_LOAD,
    fault=FaultPlan(
        name="below_min_isr",
        summary="Send 50 records, kill both followers, send the leader 50 that it must refuse, start the followers.",
        steps=(
            step(AT_ONCE, "send"),
            step(SETTLED, "kill", "followers", ("isr_shrunk",)),
            step(SHRUNK, "send"),
            step(SETTLED, "start", "followers"),
        ),
    ),
    rules=("lost.never", "duplicated.never"),
    why_held="A refusal breaks no promise: what the client did not report as written need not be there.",
)

_TIMED_OUT = Entry(
    name="retries_off.timed_out",
    title="REQUEST_TIMED_OUT, and written all the same",
    promise="A leader whose followers do not fetch in time answers with an error, after it has written: an "
    "application that takes REQUEST_TIMED_OUT for a failure, and sends again, writes twice. The outcome of "
    "such a record is unknown, never failed.",
    source="Apache Kafka documentation, producer configurations: request.timeout.ms",
    tags=("smoke", "promises"),
    arms=(
        ArmPlan(
            name="retries_off",
            role="subject",
            claim="exactly_once",
            profile=RETRIES_OFF_IMPATIENT,
            expectation=exactly(indeterminate=50, resolved_present=50),
        ),
        _SAFE,
    ),
    load=_LOAD,
    fault=FaultPlan(
        name="followers_do_not_fetch",
        summary="Send 50 records, freeze both followers, send the leader 50 more, thaw them when the client has given "
        "up.",
        steps=(
            step(AT_ONCE, "send"),
            step(SETTLED, "pause", "followers", ("brief",)),
            step(after(0.5), "send"),
            step(SETTLED, "resume", "followers"),
        ),
    ),
    session_timeout_ms=15_000,
    rules=("lost.never", "duplicated.requeued", "duplicated.never"),
    why_held="An error report convicts no one: the records are there, and the client did not report them as written.",
)

ENTRIES: tuple[Entry, ...] = (_REFUSED, _TIMED_OUT)

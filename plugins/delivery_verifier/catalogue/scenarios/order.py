"""Order: what max.in.flight.requests.per.connection and retries do to the order of records."""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    SETTLED,
    SHRUNK,
    TOOK_EFFECT,
    after,
    broken,
    exactly,
    scripted,
    step,
)
from delivery_verifier.catalogue.profiles import PROFILES, profile_of
from delivery_verifier.model.data import Setting
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import Bound, Expectation, Load, Profile

_ALL_THREE: dict[str, Setting] = {"min.insync.replicas": 3}

_MANY_IN_FLIGHT = profile_of(
    "many_in_flight",
    "librdkafka's own default: any number of requests in flight; here with one record each.",
    topic=_ALL_THREE,
    max_in_flight_requests_per_connection=1_000_000,
    batch_num_messages=1,
    linger_ms=0,
)
_IDEMPOTENT = profile_of(
    "idempotent_one_by_one",
    "Idempotent, five requests in flight, with one record each.",
    topic=_ALL_THREE,
    enable_idempotence=True,
    batch_num_messages=1,
    linger_ms=0,
)

_REFUSED_AND_TAKEN = Entry(
    name="order.refused_then_taken",
    title="Many requests in flight: the first are refused, the ones behind them are taken",
    promise="With several requests in flight a request that is refused for a moment is sent again behind those that "
    "were taken meanwhile. An idempotent producer numbers its requests, and the broker takes none out of "
    "order.",
    source="Apache Kafka documentation, producer configurations: max.in.flight.requests.per.connection; KIP-98",
    tags=("promises",),
    arms=(
        ArmPlan(
            name="many_in_flight",
            role="subject",
            profile=_MANY_IN_FLIGHT,
            claim="ordered",
            expectation=Expectation(verdicts=("VIOLATED",), bounds=(Bound(count="REORDERED", op=">=", value=1),)),
        ),
        ArmPlan(name="idempotent", role="control", profile=_IDEMPOTENT, claim="ordered"),
    ),
    load=scripted(1000),
    fault=FaultPlan(
        name="min_isr_lowered",
        summary="Kill a follower of topics that ask for three in sync, freeze the leader, send it 1000 requests, lower "
        "min.insync.replicas to two, thaw the leader. It refuses until it learns of that, and takes the rest.",
        steps=(
            step(AT_ONCE, "kill", "other_follower", ("isr_shrunk",)),
            step(SHRUNK, "pause", "leader", ("brief",)),
            step(AT_ONCE, "send"),
            step(after(0.3), "alter_topic", "leader", setting="min.insync.replicas", value=2),
            step(AT_ONCE, "resume", "leader"),
            step(SETTLED, "start", "other_follower"),
        ),
    ),
    session_timeout_ms=6000,
    deterministic=False,
    rules=("reordered.retries", "reordered.never"),
)
"""In this scenario, min.insync.replicas is 3. The fault plan kills a follower, so that only two replicas are in sync,
and freezes the leader. Requests then wait in the leader's socket. Meanwhile the plan lowers min.insync.replicas to 2.
When the leader wakes up, it refuses requests until it learns the new value, and accepts the others. In one measurement,
it refused 108 of 1000."""


def _record_by_record(profile: str) -> Profile:
    """Returns the catalogue's profile `profile`, changed so that each request holds one record.

    The client looks for new leaders every half second. It gives up a request that has no answer after 8 s.
    """
    patience = {"socket.timeout.ms": 8000, "topic.metadata.refresh.interval.ms": 500}
    base = PROFILES[profile]
    return replace(base, producer=base.producer | patience | {"batch.num.messages": 1, "linger.ms": 0})


def _late(profile: str, count: int, **with_other: Expectation) -> ArmPlan:
    """Returns a subject arm with the catalogue's profile `profile`. The arm must end with `count` REORDERED records.
    `with_other`: what it must show with another client."""
    return ArmPlan(
        name=profile,
        role="subject",
        profile=_record_by_record(profile),
        claim="ordered",
        expectation=broken(REORDERED=count),
        with_other=with_other,  # type: ignore[arg-type]
    )


_STALLED_LEADER = Entry(
    name="order.stalled_leader",
    title="Order: leadership moves while requests to the old leader are stuck",
    promise="max.in.flight=1 is no guarantee of order: the limit is per connection, so that a new leader receives new "
    "records before the one that is stuck on the way to the old leader is sent again. An idempotent producer "
    "keeps the order.",
    source="librdkafka issue 1092; KIP-98",
    tags=("promises",),
    arms=(
        _late("acks_all", 5),
        _late("in_flight_1", 1, java=exactly(REORDERED=0)),
        ArmPlan(name="idempotent", role="control", profile=_record_by_record("idempotent"), claim="ordered"),
    ),
    load=Load(partitions=3, pacing="scripted", block=20),
    fault=FaultPlan(
        name="stalled_leader",
        summary="Swallow every Produce request to the leader, have another replica elected, go on sending.",
        duration_s=10,
        steps=(
            step(AT_ONCE, "drop", "leader", direction="request", clients=3),
            step(AT_ONCE, "send"),
            step(TOOK_EFFECT, "wait"),
            step(after(1), "elect_preferred", "leader"),
            step(AT_ONCE, "send"),
            step(SETTLED, "release", "leader"),
        ),
    ),
    rules=("reordered.retries", "reordered.one_in_flight", "reordered.never"),
)
"""In this scenario, the load has three partitions, each with a leader of its own. The connection to one leader is
stuck, because the proxy drops its requests. A request for metadata on this connection would wait behind them. So a
client learns of the new leader only through a connection to another broker. The client sends the next records to the
new leader. Later it sends the stuck records again, out of order: five in the arm acks_all, one in the arm
in_flight_1."""

_LARGE_BLOCK = 800
"""The number of records in a block. A record has 1000 bytes, so a block fits into one request (batch.size is 1,000,000
by default). While the broker does not read, a block does not fit into the buffers of the sockets between client and
broker."""


def _one_large_request(profile: str, **producer: Setting) -> Profile:
    """Returns the catalogue's profile `profile`, changed so that a block of the load becomes one request.

    The client sends the request as soon as it has the whole block. It looks for new leaders every second. Its socket
    holds less than one such request. `producer` has further settings. In their names, a `_` stands for a dot.
    """
    base, named = PROFILES[profile], {key.replace("_", "."): value for key, value in producer.items()}
    # With one request in flight, a Metadata request that the frozen leader does not answer holds the block back. So the
    # block must not wait, and the client must not ask often.
    whole_block = {"batch.num.messages": _LARGE_BLOCK, "linger.ms": 1000}
    rest = {"socket.send.buffer.bytes": 65536, "topic.metadata.refresh.interval.ms": 1000}
    return replace(base, producer=base.producer | whole_block | rest | named)


def _sent_late(name: str, **producer: Setting) -> ArmPlan:
    """Returns a subject arm with acks=0 that must end with all records of one request REORDERED, and none DUPLICATED.

    `producer` has further settings. In their names, a `_` stands for a dot.
    """
    return ArmPlan(
        name=name,
        role="subject",
        profile=_one_large_request("acks_0", **producer),
        claim="ordered",
        expectation=broken(REORDERED=_LARGE_BLOCK, DUPLICATED=0),
    )


_ACKS_0_PARTLY_SENT = Entry(
    name="order.acks_0_partly_sent",
    title="Order: with acks=0 a request that was sent in part is sent again, late",
    promise="acks=0 is no guarantee of order. A request of which the socket took only a part is sent again when its "
    "connection breaks. By then a new leader may have what was sent after it. An idempotent producer keeps the "
    "order.",
    source="librdkafka, rdkafka_request.c: rd_kafka_handle_Produce_error, rd_kafka_buf_was_sent; KIP-98",
    tags=("promises",),
    arms=(
        _sent_late("acks_0"),
        _sent_late("acks_0_no_retries", retries=0, max_in_flight_requests_per_connection=1),
        ArmPlan(name="idempotent", role="control", profile=_one_large_request("idempotent"), claim="ordered"),
    ),
    load=Load(partitions=3, pacing="scripted", block=_LARGE_BLOCK, payload_bytes=1000),
    fault=FaultPlan(
        name="frozen_leader_succeeded",
        summary="Freeze the leader, send it more than the sockets take, have another replica elected, send it more, "
        "kill the frozen one.",
        duration_s=20,
        steps=(
            step(AT_ONCE, "pause", "leader", ("brief",)),
            step(AT_ONCE, "send"),
            step(after(1), "elect_preferred", "leader"),
            step(after(2), "send"),
            step(after(2), "kill", "leader", ("isr_shrunk",)),
            step(SHRUNK, "wait"),
            step(SETTLED, "start", "leader"),
        ),
    ),
    session_timeout_ms=12_000,
    rules=("reordered.acks_0", "reordered.never"),
)
"""In this scenario, the leader is frozen and does not read, so its connection takes only a part of the first request.
Then another replica is elected leader. The client asks for the leader, so the second request goes to the new one. When
the frozen broker is killed, the connection breaks. Then the client sends the whole first request again, behind the
second. The election must come before the session of the frozen broker times out: the client would then close the
connection at once."""


def _soon_gone(profile: str) -> Profile:
    """Returns the catalogue's profile `profile`, changed so that the client soon closes a connection that is stuck.

    The client asks for metadata five times a second, also on the stuck connection. It closes a connection on which a
    request gets no answer for 1 s.
    """
    base = PROFILES[profile]
    patience = {"socket.timeout.ms": 1000, "topic.metadata.refresh.interval.ms": 200}
    return replace(base, producer=base.producer | patience)


_ACKS_0_TWO_CONNECTIONS = Entry(
    name="order.acks_0_two_connections",
    title="Order: with acks=0 an old connection delivers after a new one",
    promise="acks=0 is no guarantee of order, though no broker fails: Kafka keeps the order of one connection, and "
    "what still waits in an old one is appended behind what the next one has brought. An idempotent producer keeps "
    "the order.",
    source="Apache Kafka documentation, producer configurations: acks; KIP-98",
    tags=("promises",),
    arms=(
        ArmPlan(
            name="acks_0",
            role="subject",
            profile=_soon_gone("acks_0"),
            claim="ordered",
            expectation=broken(REORDERED=20, DUPLICATED=0),
        ),
        ArmPlan(name="idempotent", role="control", profile=_soon_gone("idempotent"), claim="ordered"),
    ),
    load=Load(partitions=3, pacing="scripted", block=20),
    fault=FaultPlan(
        name="old_connection_held",
        summary="Hold the leader's connection from its next Produce request on, until the clients have another one and "
        "have sent more.",
        duration_s=10,
        steps=(
            step(AT_ONCE, "hold", "leader", direction="request", count=1, clients=2),
            step(AT_ONCE, "send"),
            step(TOOK_EFFECT, "wait"),
            step(after(4), "send"),
            step(after(1), "wait"),
            step(SETTLED, "release", "leader"),
        ),
    ),
    rules=("reordered.acks_0", "reordered.never"),
)
"""In this scenario, the proxy holds back a client's first Produce request, and all later requests on this connection. A
metadata request among them times out. So the client opens a new connection, and sends the next records to the same
leader on it."""

ENTRIES: tuple[Entry, ...] = (_REFUSED_AND_TAKEN, _STALLED_LEADER, _ACKS_0_PARTLY_SENT, _ACKS_0_TWO_CONNECTIONS)

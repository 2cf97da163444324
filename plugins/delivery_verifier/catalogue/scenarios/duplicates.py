"""Duplicates: without idempotence, retries of the client write records twice."""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import AT_ONCE, SETTLED, TOOK_EFFECT, after, broken, scripted, step
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.model.data import Setting
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import Bound, Expectation, Profile

_BLOCK = 20


def _one_request(profile: str, **producer: Setting) -> Profile:
    """Returns the catalogue's profile `profile` with a linger.ms of 100 and with the settings in `producer`.

    The client then puts all records of one `send` step of the fault plan into a single Produce request. In the names of
    the settings in `producer`, a `_` stands for a dot.
    """
    base, named = PROFILES[profile], {key.replace("_", "."): value for key, value in producer.items()}
    return replace(base, producer=base.producer | {"linger.ms": 100} | named)


def _twice(profile: str, **producer: Setting) -> ArmPlan:
    """Returns a subject arm. The expectation is that the log holds every record of the arm at least twice.

    The arm has the catalogue's profile `profile`, with the settings in `producer`. In the names of these settings, a
    `_` stands for a dot.
    """
    return ArmPlan(
        name=profile,
        role="subject",
        profile=_one_request(profile, **producer),
        claim="at_most_once",
        expectation=broken(DUPLICATED=_BLOCK),
    )


def _once(profile: str, **producer: Setting) -> ArmPlan:
    """Returns a control arm. The expectation is that the log holds no record of the arm twice.

    The arm has the catalogue's profile `profile`, with the settings in `producer`. In the names of these settings, a
    `_` stands for a dot.
    """
    return ArmPlan(name=profile, role="control", profile=_one_request(profile, **producer), claim="at_most_once")


_IMPATIENT = (
    _twice("acks_all", socket_timeout_ms=1000),
    _twice("acks_1", socket_timeout_ms=1000),
    _once("idempotent", socket_timeout_ms=1000),
)
"""Arms whose clients wait one second for the answer to a request, and then send the request again."""
_ANSWERED_TO = (step(AT_ONCE, "send"), step(TOOK_EFFECT, "wait"), step(SETTLED, "release"))
"""The last steps of a fault plan whose first step interferes with the brokers' answers.

Every client sends one request. The plan waits until the interference has taken effect. Once the outcome of every record
is known, the interference ends.
"""

_CLOSED_CONNECTION = Entry(
    name="duplicates.closed_connection",
    title="Retries: the connection breaks before the acknowledgement is through",
    promise="A lost acknowledgement is enough for a retry that writes everything again, whatever acks says; no broker "
    "need fail for it. An idempotent producer's retry is recognised and discarded.",
    source="KIP-98; Apache Kafka documentation, producer configurations: retries, enable.idempotence",
    tags=("smoke", "promises"),
    arms=(_twice("acks_all"), _twice("acks_1"), _once("idempotent")),
    load=scripted(_BLOCK),
    fault=FaultPlan(
        name="closed_connection",
        summary="Close every producer's connection instead of forwarding its next Produce response, once.",
        duration_s=3,
        steps=(
            step(AT_ONCE, "close", "leader", count=1, clients=3),
            *_ANSWERED_TO,
        ),
    ),
    rules=("duplicated.retries", "duplicated.never"),
)

_SLOW_ANSWER = Entry(
    name="duplicates.slow_answer",
    title="Retries: the acknowledgement comes later than the client waits",
    promise="A client that gives up waiting sends again what the broker has long written. Nothing failed here, neither "
    "broker nor connection: the answer was slow.",
    source="KIP-98; librdkafka, CONFIGURATION.md: socket.timeout.ms",
    tags=("promises",),
    arms=_IMPATIENT,
    load=scripted(_BLOCK),
    fault=FaultPlan(
        name="slow_answer",
        summary="Let the answer to every producer's next request go 2.5 s late, where clients wait for 1 s.",
        duration_s=5,
        steps=(
            step(AT_ONCE, "delay", "leader", count=1, clients=3, delay_ms=2500),
            *_ANSWERED_TO,
        ),
    ),
    rules=("duplicated.retries", "duplicated.never"),
)

_FROZEN_FOLLOWERS = Entry(
    name="duplicates.frozen_followers",
    title="Retries: the leader has written, its followers are late",
    promise="A leader that waits for its followers longer than request.timeout.ms answers with an error for records "
    "it has written, and every retry of acks=all writes them once more: four times in four seconds. An "
    "idempotent producer's retry is recognised; acks=1 does not wait.",
    source="KIP-98; Apache Kafka documentation, producer configurations: request.timeout.ms, retries",
    tags=("promises",),
    arms=(
        ArmPlan(
            name="acks_all",
            role="subject",
            profile=_one_request("acks_all", request_timeout_ms=1000),
            claim="at_most_once",
            expectation=Expectation(
                verdicts=("VIOLATED",),
                bounds=(
                    Bound(count="DUPLICATED", op="=", value=_BLOCK),
                    Bound(count="extra_copies", op=">=", value=2 * _BLOCK),
                ),
            ),
        ),
        _once("acks_1", request_timeout_ms=1000),
        _once("idempotent", request_timeout_ms=1000),
    ),
    load=scripted(_BLOCK),
    fault=FaultPlan(
        name="followers_late",
        summary="Freeze both followers for 4 s, far less than their session, and send the leader one request.",
        duration_s=5,
        steps=(
            step(AT_ONCE, "pause", "followers", ("brief",)),
            step(AT_ONCE, "send"),
            step(after(4), "resume", "followers"),
        ),
    ),
    session_timeout_ms=15_000,
    rules=("duplicated.retries", "duplicated.never"),
)
"""In this scenario, the followers are frozen for a time that is shorter than the session timeout of the brokers. So the
frozen brokers stay members of the cluster, and the freeze causes only retries. In measurements, every record of the arm
acks_all had four copies, and five on a busy host, where the freeze lasted longer than planned. The expectation asks for
at least three copies per record on average.
"""

_FROZEN_LEADER = Entry(
    name="duplicates.frozen_leader",
    title="Retries: a leader that stands still has the request already",
    promise="A client that got no answer within socket.timeout.ms closes the connection and sends again on a new one; "
    "the broker, when it goes on, finds both requests and writes both, whatever acks says. An idempotent "
    "producer's second request is recognised and discarded.",
    source="KIP-98; librdkafka, CONFIGURATION.md: socket.timeout.ms",
    tags=("promises",),
    arms=_IMPATIENT,
    load=scripted(_BLOCK),
    fault=FaultPlan(
        name="leader_frozen_briefly",
        summary="Freeze the leader for 2.5 s, far less than its session, with one request of every producer in its "
        "socket.",
        duration_s=4,
        steps=(
            step(AT_ONCE, "pause", "leader", ("brief",)),
            step(AT_ONCE, "send"),
            step(after(2.5), "resume", "leader"),
        ),
    ),
    session_timeout_ms=15_000,
    rules=("duplicated.retries", "duplicated.never"),
)

ENTRIES: tuple[Entry, ...] = (_CLOSED_CONNECTION, _SLOW_ANSWER, _FROZEN_FOLLOWERS, _FROZEN_LEADER)

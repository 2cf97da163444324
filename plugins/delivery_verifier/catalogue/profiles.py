"""The profiles of the catalogue: delivery settings under Kafka's own names. Each profile is one literal."""

from __future__ import annotations

from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import Profile

_PRODUCER: dict[str, Setting] = {
    "acks": "all",
    "enable.idempotence": False,
    "retries": 2147483647,
    "max.in.flight.requests.per.connection": 5,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1000,
    "delivery.timeout.ms": 120000,
    "request.timeout.ms": 30000,
    "socket.timeout.ms": 60000,
    "topic.metadata.refresh.interval.ms": 300000,
    "linger.ms": 5,
    "compression.type": "none",
}
_TOPIC: dict[str, Setting] = {
    "min.insync.replicas": 2,
    "unclean.leader.election.enable": False,
    "flush.messages": 9223372036854775807,
}


def profile_of(name: str, summary: str, topic: dict[str, Setting] | None = None, **producer: Setting) -> Profile:
    """Returns a profile with the settings in `topic` and `producer`.

    All other settings come from `_TOPIC` and `_PRODUCER`. These two hold the usual defaults, with three exceptions:
    acks=all, min.insync.replicas=2, and no idempotence. In the names of the settings in `producer`, a `_` stands for a
    dot. `summary` describes the profile to people.
    """
    named = {key.replace("_", "."): value for key, value in producer.items()}
    return Profile(name=name, summary=summary, producer=_PRODUCER | named, topic=_TOPIC | (topic or {}))


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        profile_of("acks_0", "Fire and forget: the client asks for no acknowledgement.", acks="0"),
        profile_of("acks_1", "The leader alone acknowledges.", acks="1"),
        profile_of("acks_all", "All in-sync replicas acknowledge; retries may write twice.", acks="all"),
        profile_of(
            "retries_off",
            "acks=all, and the client gives up where it would send again. It still writes a record twice where it puts "
            "a refused request back into its queue.",
            acks="all",
            retries=0,
        ),
        profile_of(
            "in_flight_1",
            "acks=all with one request in flight per connection. Long believed to guarantee order; it does not.",
            acks="all",
            max_in_flight_requests_per_connection=1,
        ),
        profile_of(
            "idempotent",
            "acks=all, and the broker discards what a retry sends twice.",
            acks="all",
            enable_idempotence=True,
        ),
        profile_of(
            "safe",
            "Idempotent, minimum two in-sync replicas, no unclean election, and a client that looks for new leaders.",
            acks="all",
            enable_idempotence=True,
            topic_metadata_refresh_interval_ms=1000,
        ),
        profile_of(
            "transactional",
            "Like safe, with transactions: read_committed consumers see committed records only.",
            acks="all",
            enable_idempotence=True,
            topic_metadata_refresh_interval_ms=1000,
            transactional_id="kdv",
            transaction_timeout_ms=60000,
            delivery_timeout_ms=60000,
        ),
    )
}

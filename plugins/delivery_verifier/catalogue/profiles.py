"""The profiles of the catalogue: delivery settings under Kafka's own names. Each profile is one literal, which also
says what `kdv price` and the docs do with it."""

from __future__ import annotations

from typing import NamedTuple

from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import Claim, Profile

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


class ProfileEntry(NamedTuple):
    """A profile, the guarantee that it may break, and whether its price is measured and published.

    `weakness`: a guarantee that users often expect of the profile, and that it may break under everyday faults. None:
    the profile is strong, and must keep each record exactly once. `is_priced`: `kdv price` measures what it costs.
    `is_published`: docs/which-settings.md shows it, with the price that was measured last.
    """

    profile: Profile
    weakness: Claim | None
    is_priced: bool
    is_published: bool


def _entry(
    name: str,
    summary: str,
    topic: dict[str, Setting] | None = None,
    *,
    weakness: Claim | None,
    priced: bool = False,
    published: bool = False,
    **producer: Setting,
) -> ProfileEntry:
    """Returns the profile that `profile_of` makes of the first three arguments and `producer`, with the other fields of
    its entry."""
    return ProfileEntry(profile_of(name, summary, topic, **producer), weakness, priced, published)


PROFILE_ENTRIES: dict[str, ProfileEntry] = {
    entry.profile.name: entry
    for entry in (
        _entry(
            "acks_0",
            "Fire and forget: the client asks for no acknowledgement.",
            weakness="at_least_once",
            priced=True,
            published=True,
            acks="0",
        ),
        _entry(
            "acks_1", "The leader alone acknowledges.", weakness="at_least_once", priced=True, published=True, acks="1"
        ),
        _entry(
            "acks_all",
            "All in-sync replicas acknowledge; retries may write twice.",
            weakness="at_most_once",
            priced=True,
            published=True,
            acks="all",
        ),
        _entry(
            "retries_off",
            "acks=all, and the client gives up where it would send again. It still writes a record twice where it puts "
            "a refused request back into its queue.",
            weakness="at_most_once",
            acks="all",
            retries=0,
        ),
        _entry(
            "in_flight_1",
            "acks=all with one request in flight per connection. Long believed to guarantee order; it does not.",
            weakness="ordered",
            priced=True,
            published=True,
            acks="all",
            max_in_flight_requests_per_connection=1,
        ),
        _entry(
            "idempotent",
            "acks=all, and the broker discards what a retry sends twice.",
            weakness=None,
            priced=True,
            published=True,
            acks="all",
            enable_idempotence=True,
        ),
        _entry(
            "safe",
            "Idempotent, minimum two in-sync replicas, no unclean election, and a client that looks for new leaders.",
            weakness=None,
            acks="all",
            enable_idempotence=True,
            topic_metadata_refresh_interval_ms=1000,
        ),
        _entry(
            "transactional",
            "Like safe, with transactions: read_committed consumers see committed records only.",
            weakness=None,
            priced=True,
            published=True,
            acks="all",
            enable_idempotence=True,
            topic_metadata_refresh_interval_ms=1000,
            transactional_id="kdv",
            transaction_timeout_ms=60000,
            delivery_timeout_ms=60000,
        ),
    )
}
"""The profiles of the catalogue with their use, by name."""
PROFILES: dict[str, Profile] = {name: entry.profile for name, entry in PROFILE_ENTRIES.items()}
"""The profiles of the catalogue, by name."""
WEAKNESSES: dict[str, Claim] = {name: entry.weakness for name, entry in PROFILE_ENTRIES.items() if entry.weakness}
"""The weakness of each weak profile, by name (see ProfileEntry)."""
STRONG = tuple(name for name, entry in PROFILE_ENTRIES.items() if entry.weakness is None)
"""The names of the strong profiles."""
PRICED = tuple(name for name, entry in PROFILE_ENTRIES.items() if entry.is_priced)
"""The names of the profiles whose price is measured."""
PUBLISHED = tuple(name for name, entry in PROFILE_ENTRIES.items() if entry.is_published)
"""The names of the profiles that docs/which-settings.md shows with their price."""

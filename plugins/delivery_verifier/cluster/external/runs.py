"""Runs on a cluster that somebody else runs, as everybody sees them there: by the names of their topics.

Each run first creates a topic that announces it. Its name says who runs what since when, so that a run from another
home, which has no register of it, can say beside whom it would be.
"""

from __future__ import annotations

import calendar
import re
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from delivery_verifier.cluster.check.rights import PREFIX
from delivery_verifier.host.processes import myself, user_of
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.errors import VerifierError

_OF_RUN = re.compile(rf"{re.escape(PREFIX)}([a-z0-9]{{8}})-.+")
_ANNOUNCEMENT = re.compile(rf"{re.escape(PREFIX)}([a-z0-9]{{8}})-run\.([0-9]{{14}})\.([A-Za-z0-9_-]+)\.(.+)")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_CLOCK = "%Y%m%d%H%M%S"
_MOST_NAME, _MOST_WHO = 249, 60
"""The longest name of a topic, and the longest name of a user with his host that is shown."""
ANSWER_S, LAG_S = 15.0, 2.0
"""How long a broker may take to answer, and how long it may still show topics that were removed, in seconds."""


class ClusterTaken(VerifierError, RuntimeError):
    """Topics of another run stand on the cluster."""

    exit_code = 75


class Standing(NamedTuple):
    """A run whose topics stand on the cluster. `run`, `who` and `since_s` (s since the epoch) are None if no topic
    announces it."""

    token: str
    topics: tuple[str, ...]
    run: str | None = None
    who: str | None = None
    since_s: float | None = None

    def is_named(self, names: Collection[str]) -> bool:
        """Returns whether one of `names` is the run's name or token."""
        return self.token in names or self.run in names

    def __str__(self) -> str:
        topics = f"{len(self.topics)} topics {PREFIX}{self.token}-*"
        if self.run is None or self.since_s is None:
            return f"a run with the token {self.token}, whose name and age are not known ({topics}: none announces it)"
        began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since_s))
        age_s = time.time() - self.since_s
        return f"run {self.run} of {self.who}, since {began} ({age_s:.0f} s ago by this host's clock; {topics})"


def announcement(token: str, run: str) -> str:
    """Returns the name of the topic that announces the run with this token and name, which begins now."""
    user, host = user_of(myself().pid), socket.gethostname()
    who = _UNSAFE.sub("-", f"{user}-at-{host}")[:_MOST_WHO]
    began = time.strftime(_CLOCK, time.gmtime())
    return f"{PREFIX}{token}-run.{began}.{who}.{run}"[:_MOST_NAME]


def standing(topics: Iterable[str]) -> list[Standing]:
    """Returns the runs to which the topics with these names belong. Topics of others are passed over."""
    of_runs = dict[str, list[str]]()
    for name in sorted(topics):
        if match := _OF_RUN.fullmatch(name):
            of_runs.setdefault(match[1], []).append(name)
    return [_standing(token, names) for token, names in of_runs.items()]


def _standing(token: str, names: list[str]) -> Standing:
    for match in filter(None, map(_ANNOUNCEMENT.fullmatch, names)):
        try:
            since = time.strptime(match[2], _CLOCK)
        except ValueError:  # another made this name
            continue
        return Standing(token, tuple(names), match[4], match[3], calendar.timegm(since))
    return Standing(token, tuple(names))


def require_alone(
    client: AdminClient, own: Collection[str], beside: Collection[str], elsewhere: Mapping[str, str] | None = None
) -> None:
    """Raises ClusterTaken if topics of a run stand on the cluster, whose token is not in `own` and whose name or token
    is not in `beside`. Raises KafkaException if no broker answers.

    `elsewhere` maps tokens of runs of this home, but of another host, to a text about the register."""
    refused = list[Standing]()

    def is_alone() -> bool:
        others = [run for run in standing(client.list_topics(timeout=ANSWER_S).topics) if run.token not in own]
        refused[:] = [run for run in others if not run.is_named(beside)]
        return not refused

    with suppress(DeadlinePassed):
        wait_until(is_alone, "topics of other runs to be gone", LAG_S, every_s=0.3)
    if refused:
        named = refused[0].run or refused[0].token
        register = (elsewhere or {}).get(refused[0].token)
        dead = (
            f"its register is {register}, and kdv doctor --heal removes it there. If that host is no more, remove "
            "its topics by hand, and then this file"
            if register
            else "its own home removes it (kdv doctor --heal there)"
        )
        raise ClusterTaken(
            f"the cluster is in use: {'; '.join(map(str, refused))}. Wait for its end; if it is dead, {dead}; "
            f"or go on beside it, and touch nothing of it: --beside {named}"
        )

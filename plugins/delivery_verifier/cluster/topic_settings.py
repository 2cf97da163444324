"""The settings of topics, as they are watched on a cluster that somebody else runs: another value is written down.

A setting that was altered and set back between two looks is not seen. So each look is written down, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from delivery_verifier.cluster.protocol.asking import Asking
from delivery_verifier.cluster.protocol.requests import VIEW_S
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.history import Observation, now_us

EVERY_S = 1.0
"""Seconds between two looks."""
WATCHED = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "flush.messages",
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
)
"""The settings of topics on which what is promised, or what is left of the log, depends."""


_TOPIC = 2
"""The code in Kafka's protocol for a resource that is a topic."""


class TopicSettings:
    """Asks for the settings of the topics that `topics` returns. Calls `record` for each that is new or has changed,
    and for each look that saw all topics.

    Always asks the same broker while it answers: others may know of an alteration a moment later.
    """

    def __init__(
        self,
        requests: Asking,
        brokers: Sequence[int],
        topics: Callable[[], list[str]],
        record: Callable[[Observation], None],
    ) -> None:
        self._requests, self._brokers, self._topics, self._record = requests, list(brokers), topics, record
        self._known: dict[tuple[str, str], str] = {}
        self._looked_us: int | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="topic settings", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Looks no more."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def look(self) -> None:
        """Looks once. If no broker answers, nothing is recorded."""
        if topics := [name for name in self._topics() if not name.startswith("__")]:
            for broker in self._brokers:
                asked_us = now_us()
                try:
                    values = self._settings(broker, topics)
                except (OSError, VerifierError, ValueError, LookupError):  # silent, another protocol, or unreadable
                    continue
                self._brokers = [broker, *(other for other in self._brokers if other != broker)]
                self._note(values)
                if {topic for topic, _ in values} >= set(topics):
                    self._note_look(asked_us)
                return

    def _settings(self, broker: int, topics: list[str]) -> dict[tuple[str, str], str]:
        """Returns the value of each setting by topic and name, without the topics that `broker` does not show."""
        asked = [(_TOPIC, topic, list(WATCHED)) for topic in topics]
        results = self._requests.ask(broker, "DescribeConfigs", VIEW_S, resources=asked).results or ()
        return {
            (result.resource_name, each.name): each.value or ""
            for result in results
            if not result.error_code
            for each in result.configs or ()
        }

    def _poll(self) -> None:
        while not self._done.wait(EVERY_S):
            self.look()

    def _note_look(self, asked_us: int) -> None:
        pause_us = 0 if self._looked_us is None else now_us() - self._looked_us
        self._looked_us = asked_us
        self._record(Observation(at_us=0, kind="look", pause_us=pause_us))

    def _note(self, values: dict[tuple[str, str], str]) -> None:
        for (topic, setting), value in values.items():
            if self._known.get((topic, setting)) != value:
                self._known[topic, setting] = value
                self._record(Observation(at_us=0, kind="setting", topic=topic, setting=setting, value=value))

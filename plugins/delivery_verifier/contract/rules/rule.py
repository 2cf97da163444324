"""The class `ContractRule`. A rule permits an anomaly for certain settings. Most rules do so only after certain
disturbances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.client import CLIENTS, Client
from delivery_verifier.model.history import Disturbance, DisturbanceKind

ELECTIONS: tuple[DisturbanceKind, ...] = ("leader_change", "unclean_election")
"""The kinds of disturbance in which a partition gets another leader, by a clean election or an unclean one."""

PRODUCER_DOCS = "Apache Kafka documentation, producer configurations"
TOPIC_DOCS = "Apache Kafka documentation, topic configurations"
MEASURED = "measured on Kafka 4.3.1"
BOTH: tuple[Client, ...] = tuple(CLIENTS)
JAVA_SOURCE = "source of the Java client, not run"


def _always(_settings: Settings, _disturbance: Disturbance) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ContractRule:
    """A rule that permits `anomaly` for some settings. Most rules permit it only after certain disturbances.

    `id` names the rule, e.g. `lost.acks_1`. The rule permits its anomaly if all of these conditions hold:

    * `applies(settings)` is true. `condition` says in words which settings these are.
    * There was a disturbance of one of `kinds`, for which `far_enough(settings, disturbance)` is true, e.g. because
      enough replicas lost their power. `far_enough_text` says this in words. If `kinds` is empty, this condition always
      holds.
    * There was a disturbance of each kind in `also_required`.

    * The settings belong to one of `clients`. Most rules are about brokers and the protocol, and hold for all clients.

    `sentence` explains the rule to people. `source` says where the behaviour is documented or how it was found. If
    librdkafka and the Java client behave differently here, `java` says what the Java client does, with its source.
    `measured_with`: the clients with which the rule was put to the test on real brokers. A rule of another client rests
    on its source alone, and says so.
    """

    id: str
    anomaly: Anomaly
    condition: str
    applies: Callable[[Settings], bool]
    kinds: tuple[DisturbanceKind, ...]
    sentence: str
    source: str
    also_required: tuple[DisturbanceKind, ...] = ()
    far_enough: Callable[[Settings, Disturbance], bool] = _always
    far_enough_text: str = ""
    java: str = ""
    clients: tuple[Client, ...] = BOTH
    versions: str = ""
    """In words, for which versions of the clients the rule holds, if not for all. `applies` decides that."""
    measured_with: tuple[Client, ...] = ("librdkafka",)
    transactional: bool = True
    """Whether the rule can apply to a transactional producer. For example, a rule about acks=1 cannot, because a
    transactional producer always has acks=all."""

    def holds(self, settings: Settings) -> bool:
        """Returns whether the rule is about the client of `settings`, and about these settings."""
        return settings.client in self.clients and self.applies(settings)

    @property
    def holds_for(self) -> str:
        """The clients for which the rule holds, in words, and with which of them it was measured."""
        names = self.versions or " and ".join(CLIENTS[client].title for client in self.clients)
        return f"{names} ({self._measured})"

    def source_for(self, client: Client) -> str:
        """Returns the source of the rule for an arm with `client`. It says so if nobody has measured the rule with this
        client."""
        if client == "librdkafka" or client in self.measured_with:
            return self.source
        return f"{self.source} ({self._measured})"

    @property
    def _measured(self) -> str:
        names = [CLIENTS[client].title for client in self.measured_with]
        if not names:
            return "not measured"
        is_all = set(self.clients) <= set(self.measured_with)
        return f"measured with {' and '.join(names)}{'' if is_all else ' only'}"

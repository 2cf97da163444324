"""The class `ContractRule`. A rule permits an anomaly for certain settings. Most rules do so only after certain
disturbances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance, DisturbanceKind

ELECTIONS: tuple[DisturbanceKind, ...] = ("leader_change", "unclean_election")
"""The kinds of disturbance in which a partition gets another leader, by a clean election or an unclean one."""

PRODUCER_DOCS = "Apache Kafka documentation, producer configurations"
TOPIC_DOCS = "Apache Kafka documentation, topic configurations"
MEASURED = "measured on Kafka 4.3.1"
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

    `sentence` explains the rule to people. `source` says where the behaviour is documented or how it was found. If
    librdkafka and the Java client behave differently here, `java` says what the Java client does, with its source.
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
    transactional: bool = True
    """Whether the rule can apply to a transactional producer. For example, a rule about acks=1 cannot, because a
    transactional producer always has acks=all."""

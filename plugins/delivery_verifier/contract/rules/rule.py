"""The form of a rule: what excuses an anomaly, under which settings, after which disturbances, and who says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance, DisturbanceKind

ELECTIONS: tuple[DisturbanceKind, ...] = ("leader_change", "unclean_election")

PRODUCER_DOCS = "Apache Kafka documentation, producer configurations"
TOPIC_DOCS = "Apache Kafka documentation, topic configurations"
MEASURED = "measured on Kafka 4.3.1"


def _always(_settings: Settings, _disturbance: Disturbance) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ContractRule:
    """Permits `anomaly` for some settings, once certain disturbances were observed.

    A rule permits its anomaly if all of these hold:

    * `applies(settings)` is true. `condition` says the same in words.
    * A disturbance of one of `kinds` was observed, and `far_enough(settings, disturbance)` is true of this disturbance.
      `far_enough_text` says the same in words. Where `kinds` is empty, no disturbance is needed: the rule permits the
      anomaly on a quiet day, too.
    * For each of the kinds in `also_required`, a disturbance of that kind was observed as well.
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
    transactional: bool = True
    """Whether a transactional producer can have settings that the rule applies to. Such a producer has acks=all."""

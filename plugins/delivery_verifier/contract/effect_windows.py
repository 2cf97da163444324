"""The effect window of a disturbance: a period of time. A record that the disturbance hurt was acknowledged in this
period.

The effect windows are computed from observations and injections alone. An observation may be late, but is never early.
So a reach never ends too early. It may end too late, and then explains too much. The computing time grows in proportion
to the number of observations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from delivery_verifier.contract.deposed import last_answers, seen_partitions
from delivery_verifier.contract.observer import OBSERVER_LAG_US, in_window, unrecovered_since_us
from delivery_verifier.contract.power import cuts_power, power_back
from delivery_verifier.contract.refusals import regained, satisfied
from delivery_verifier.contract.rules.rule import ELECTIONS
from delivery_verifier.contract.times import latest
from delivery_verifier.model.coordinators import OF_COORDINATORS
from delivery_verifier.model.history import (
    LEAD_US,
    OF_APPLICATIONS,
    TRANSACTION_STATE,
    Disturbance,
    Injection,
    Observation,
)
from delivery_verifier.model.late_ends import has_late_end


@dataclass(frozen=True, slots=True)
class EffectWindow:
    """A disturbance and its effect window. Only records that were acknowledged between `since_us` and `until_us` can be
    lost by the disturbance. All times are in µs since the epoch. `since_us` is None if the beginning of the effect
    window is unknown. `until_us` is None if its end is unknown. `begun_us`: a time before which the disturbance surely
    had not begun. It is the begin of the window of the first injection that was not over yet; for a loss of power, of
    the first cut."""

    disturbance: Disturbance
    since_us: int | None
    until_us: int | None
    begun_us: int

    def touches(self, partition: int) -> bool:
        """Returns whether the disturbance may have touched `partition` of the arm's topic."""
        disturbance = self.disturbance
        return not disturbance.topic or not disturbance.partitions or partition in disturbance.partitions

    def concerns(self, producer: int | None) -> bool:
        """Returns whether the disturbance may have touched transactions of `producer`. None stands for an unknown
        producer."""
        return not self.disturbance.producers or producer in self.disturbance.producers


def effect_windows(
    disturbances: Iterable[Disturbance], observations: Sequence[Observation], injections: Iterable[Injection]
) -> list[EffectWindow]:
    """Returns each disturbance with its effect window. `observations` must be in the order in which they were made.

    The beginning of a reach is known only for these disturbances:

    * Another leader or leader epoch, or a disturbance of a transaction coordinator: LEAD_US before the effect of the
      first injection that took effect and may have caused the disturbance (see `in_window`). If there is no such
      injection, the beginning is unknown.
    * A late end of a transaction: LEAD_US before the effect of the injection that caused the late end.

    The end of a reach is known only for these disturbances:

    * Another leader or leader epoch: when no deposed leader can acknowledge anything any more, i.e. each has exited,
      leads again, has said that it does not lead, or was seen to follow its successor.
    * A loss of power of the whole ISR: when the power was back (see `power_back`).
    * A late end of a transaction: when the cluster had recovered from the injection.
    * An ISR that shrank: when all its earlier members were seen in it again. From then on, brokers refuse no requests.
    * Another min.insync.replicas: when every ISR of the topic had that many members.
    * A disturbance of an application: when the restart of its members was ordered. Later records were not yet in
      progress.
    """
    injected = list(injections)
    effective = [injection for injection in injected if injection.took_effect]
    partitions = seen_partitions(observations)
    answers, powered = last_answers(observations, partitions), power_back(observations, injected)
    whole = regained(partitions)
    result = []
    for disturbance in disturbances:
        since_us = until_us = None
        partition = disturbance.partitions[0] if len(disturbance.partitions) == 1 else -1
        if disturbance.kind in ELECTIONS or disturbance.kind in OF_COORDINATORS:
            since_us = _since_us(disturbance, effective)
        if disturbance.kind in ELECTIONS:
            until_us = answers.get((disturbance.topic, partition, disturbance.at_us))
        elif disturbance.kind in ("isr_power_loss", "coordinator_power_loss"):
            topic = disturbance.topic or TRANSACTION_STATE
            until_us = powered.get((topic, partition, disturbance.at_us, disturbance.replicas))
        elif disturbance.kind == "late_end":
            since_us = disturbance.at_us - LEAD_US
            until_us = latest(cause.recovered_at_us for cause in injected if has_late_end(cause, disturbance))
        elif disturbance.kind in OF_APPLICATIONS:
            until_us = _restarted_us(disturbance, injected)
        elif disturbance.kind == "isr_shrink":
            until_us = whole.get((disturbance.topic, partition, disturbance.at_us))
        elif disturbance.kind == "topic_altered" and disturbance.setting == "min.insync.replicas":
            until_us = satisfied(disturbance, partitions)
        result.append(EffectWindow(disturbance, since_us, until_us, _begun_us(disturbance, injected)))
    return result


def _begun_us(disturbance: Disturbance, injected: Iterable[Injection]) -> int:
    is_power_loss = disturbance.kind in ("isr_power_loss", "coordinator_power_loss")
    causes = [injection for injection in injected if cuts_power(injection) or not is_power_loss]
    return unrecovered_since_us(causes, disturbance.at_us) - OBSERVER_LAG_US


def _restarted_us(disturbance: Disturbance, injected: Iterable[Injection]) -> int | None:
    """Returns when the restart of the members that `disturbance` hit was ordered; None if this time is unknown."""
    causes = [cause for cause in injected if cause.effect_at_us == disturbance.at_us and disturbance.topic in cause.hit]
    return latest(cause.healed_at_us for cause in causes)


def _since_us(disturbance: Disturbance, effective: Iterable[Injection]) -> int | None:
    begins = [injection.effect_at_us - LEAD_US for injection in effective if in_window(injection, disturbance.at_us)]
    return min(begins, default=None)

"""Power: which partitions lost it on every in-sync replica, hence whatever no disk had been told to keep.

Pure. A broker that loses power loses what it had not flushed; what a broker that was in sync with it still has is not
lost. Once it is in the ISR again it has copied what it lacked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import Disturbance, Injection, Observation

SIGTERM_EXITS = (0, -15, 143)
"""Exit codes of an orderly end; a JVM answers SIGTERM with 143. Any other exit is a crash."""
OBSERVER_LAG_US = 1_000_000
"""The observer polls, and may see a change so much late."""


def of_isr(observations: Sequence[Observation], injections: Iterable[Injection]) -> Iterator[Disturbance]:
    """One `isr_power_loss` per partition whose ISR consisted, at some moment, of nothing but brokers without their
    power.

    `replicas` is the greatest m such that every member of the last ISR of m or more ended uncleanly (without power, or
    by a crash). With eligible leader replicas (KIP-966), one that left the ISR in an orderly way still has all that m =
    min.insync.replicas brokers acknowledged, and is elected; one that crashed is not.
    """
    cuts = [one for one in injections if (act := ACTS.get(one.action)) and "power_loss" in act.counts_as]
    if not cuts:
        return
    for (topic, partition), seen in _by_partition(observations).items():
        moments = [*_moments(seen, observations, cuts)]
        found = [moment for moment in moments if moment.lost and not _late_news(moment, moments)]
        if found:
            worst = max(found, key=lambda moment: (moment.planned, moment.replicas))
            yield Disturbance(
                kind="isr_power_loss",
                at_us=worst.at_us,
                topic=topic,
                partitions=[partition],
                planned=worst.planned,
                brokers=sorted(worst.isrs[-1]),
                replicas=worst.replicas,
                detail=f"{topic}/{partition}: all of the ISR {sorted(worst.isrs[-1])} lost power",
            )


def _late_news(of: _Moment, moments: Iterable[_Moment]) -> bool:
    """Whether the observer, which polls, saw right afterwards that one that still has its power had joined the ISR."""
    return any(
        of.at_us < it.at_us <= of.at_us + OBSERVER_LAG_US and it.isrs and it.isrs[-1] - of.dark for it in moments
    )


@dataclass
class _Moment:
    """What is known of a partition at one moment: the ISRs so far, and who lacks what it had not flushed, or
    crashed."""

    at_us: int
    cuts: list[Injection]
    isrs: list[set[int]] = field(default_factory=list)
    dark: set[int] = field(default_factory=set)
    crashed: set[int] = field(default_factory=set)

    @property
    def lost(self) -> bool:
        return bool(self.isrs) and self.isrs[-1] <= self.dark

    @property
    def planned(self) -> bool:
        """Whether each of the brokers was deprived of its power by an injection that bit."""
        return self.isrs[-1] <= {broker for cut in self.cuts if cut.bit for broker in cut.brokers}

    @property
    def replicas(self) -> int:
        return max(
            (size for size in range(1, 1 + max(map(len, self.isrs))) if self._last(size) <= self.dark | self.crashed),
            default=0,
        )

    def _last(self, size: int) -> set[int]:
        return next(isr for isr in reversed(self.isrs) if len(isr) >= size)


def _moments(seen: list[Observation], all_seen: Sequence[Observation], cuts: list[Injection]) -> Iterator[_Moment]:
    """The partition after every loss of power, crash, and change of its ISR."""
    events: list[tuple[int, Observation | Injection | None]] = [(it.at_us, it) for it in seen if it.isr]
    events += [(it.at_us, it) for it in all_seen if it.state == "exited" and it.exit_code not in SIGTERM_EXITS]
    events += [(cut.bite_at_us, cut) for cut in cuts]
    events += [(cut.recovered_at_us, None) for cut in cuts if cut.recovered_at_us is not None]
    now = _Moment(0, [])
    for at_us, event in sorted(events, key=lambda pair: pair[0]):
        if isinstance(event, Injection):
            cut, dark, crashed = [*now.cuts, event], now.dark | {*event.brokers}, now.crashed
            now = _Moment(at_us, cut, now.isrs, dark, crashed)
        elif event is None:  # recovered: all replicas are in sync again
            now = _Moment(at_us, [], now.isrs)
        elif event.kind == "process":
            now = _Moment(at_us, now.cuts, now.isrs, now.dark, now.crashed | {event.broker})
        else:
            back = {*event.isr} - (now.isrs[-1] if now.isrs else set())
            now = _Moment(at_us, now.cuts, [*now.isrs, {*event.isr}], now.dark - back, now.crashed - back)
        yield now


def _by_partition(observations: Sequence[Observation]) -> dict[tuple[str, int], list[Observation]]:
    found: dict[tuple[str, int], list[Observation]] = {}
    for seen in observations:
        if seen.kind == "partition":
            found.setdefault((seen.topic, seen.partition), []).append(seen)
    return found

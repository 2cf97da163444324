"""What nobody can see from outside, and what may have happened all the same: a loss of power, and delays.

A broker that did not answer may have crashed, restarted, stood still, been cut off, or lost its power. So its silence
is no disturbance by itself. It matters where it may explain what would convict: an outage of every broker that was in
sync may have been a loss of power. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from msgspec.structs import replace

from delivery_verifier.contract.outside import Silence, silences
from delivery_verifier.contract.power import isr_power_losses
from delivery_verifier.model.history import TRANSACTION_STATE, Disturbance, Injection, Observation


def outages(observations: Sequence[Observation]) -> Iterator[Disturbance]:
    """Yields a disturbance `outage` for each partition and silence with which every broker in the ISR had been silent,
    and none of them was seen to have copied its log again. A connection that was closed for a moment is no silence: a
    broker that lost its power takes longer to start.

    If the silences were losses of power, these would be `isr_power_loss`, with the same `replicas` (see
    `power.isr_power_losses`). The topic may be `__transaction_state`.
    """
    cuts = [
        Injection(
            id=number,
            cycle=0,
            action="power_off",
            brokers=[broker],
            hit={},
            requested_at_us=silence.since_us,
            effect_at_us=silence.since_us,
            took_effect=True,
        )
        for number, (broker, silence) in enumerate(_all(observations))
        if silence.is_sign
    ]
    for loss in isr_power_losses(observations, cuts):
        silent = ", ".join(map(str, loss.brokers))
        topic, (partition,) = loss.topic or TRANSACTION_STATE, loss.partitions
        detail = f"{topic}/{partition}: all of the ISR [{silent}] did not answer, and may have lost power"
        yield replace(loss, kind="outage", topic=topic, detail=detail)


def held_up(observations: Sequence[Observation]) -> Iterator[tuple[int, int | None]]:
    """Yields the begin and the end (µs since the epoch) of each time in which a broker let requests of the observer
    time out. It may have held up those of clients, too. The end is None if it never answered again."""
    for _, silence in _all(observations):
        if silence.counts and silence.timed_out:
            yield silence.since_us, silence.until_us


def was_silent(observations: Sequence[Observation], since_us: int) -> list[int]:
    """Returns the brokers that did not answer for some time after `since_us` (µs since the epoch), or answered one
    request too late: a request of a client may have come late, too."""
    return sorted(
        {
            broker
            for broker, silence in _all(observations)
            if (silence.counts or silence.timed_out) and (silence.until_us is None or silence.until_us >= since_us)
        }
    )


def was_over(outage: Disturbance, observations: Sequence[Observation], at_us: int) -> bool:
    """Returns whether one of the brokers of `outage` answered again before `at_us` (µs since the epoch), and went on.
    It was in sync, so it has kept every record that was acknowledged later."""
    last_us = dict.fromkeys(outage.brokers, 0.0)
    for broker, silence in _all(observations):
        if broker in last_us and silence.since_us <= outage.at_us:
            last_us[broker] = max(last_us[broker], inf if silence.until_us is None else silence.until_us)
    return any(until_us < at_us for until_us in last_us.values())


def _all(observations: Sequence[Observation]) -> list[tuple[int, Silence]]:
    return [(broker, each) for broker, times in silences(observations).items() for each in times]

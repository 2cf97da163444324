"""Delays: when requests of clients may have been held up on their way into a log.

A client that gives a request up closes its connection, and sends its records again. If the first request was held up,
the broker may append it later, even after the client has learned that the second one succeeded. This is known of a
broker that stood still (its sockets keep what it has not read), of a broker that was cut off (TCP sends again, for as
long as the cut lasted), and of held or delayed connections. Where nobody sees processes, a broker that let requests
time out may have been any of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.outages import held_up
from delivery_verifier.contract.times import Span
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import LEAD_US, Injection, Observation

_HOLDING = frozenset({"isolate", "hold", "delay", "stall", "delay_end"})
"""The actions that hold up requests, and that no observer sees. What the proxy drops, or closes a connection instead of
forwarding, arrives at once or never."""


def delays(observations: Sequence[Observation], injections: Iterable[Injection]) -> list[Span]:
    """Returns the periods in which requests may have been held up. A request that was under way at the begin of a
    period may have been appended at any time until its end.

    `observations` must be in the order in which they were made. An injection that is not healed holds up requests until
    the end of the run.
    """
    silent = (_stretched(begin_us, end_us) for begin_us, end_us in held_up(observations))
    return [*_of_processes(observations), *_of_injections(injections), *silent]


def _of_processes(observations: Iterable[Observation]) -> Iterator[Span]:
    """Yields a period for each time that the process of a broker stood still."""
    frozen_us: dict[int, int] = {}
    for now in observations:
        if now.kind != "process":
            continue
        if now.state == "frozen":
            frozen_us.setdefault(now.broker, now.at_us)
        elif now.broker in frozen_us:
            yield _stretched(frozen_us.pop(now.broker), now.at_us)
    yield from (_stretched(begin_us, None) for begin_us in frozen_us.values())


def _of_injections(injections: Iterable[Injection]) -> Iterator[Span]:
    for injection in injections:
        if injection.action in _HOLDING or injection.action not in ACTS:
            yield _stretched(injection.effect_at_us, injection.healed_at_us)


def _stretched(begin_us: int, end_us: int | None) -> Span:
    """Returns a period that is twice as long as the cause of the delay. Reason: behind a cut link, TCP doubles the time
    between two attempts to send. So the attempt after the cause may be as late as the cause lasted. A broker that stood
    still, and a proxy, are given as long."""
    early_us = begin_us - LEAD_US
    return early_us, None if end_us is None else end_us + (end_us - begin_us) + OBSERVER_LAG_US

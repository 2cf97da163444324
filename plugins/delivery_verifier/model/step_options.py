"""The options of a fault plan's steps: what each may be, so that a wrong one is refused before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, get_args

from delivery_verifier.model.fault_actions import ACTS

APIS = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "SyncGroup": 14,
    "ApiVersions": 18,
    "InitProducerId": 22,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "TxnOffsetCommit": 28,
}
"""API keys of Kafka's protocol by name, those a client under test sends."""
Link = Literal["controller", "replication", "client"]
LINKS: tuple[Link, ...] = get_args(Link)
"""What of a broker's connections can be cut: to the controller, to the other brokers, to clients."""

Check = tuple[str, Callable[[object], bool]]
"""What is allowed, in words, and whether a value is."""


def _whole(low: int) -> Check:
    return f"a whole number from {low}", lambda it: isinstance(it, int) and not isinstance(it, bool) and it >= low


def _one_of(*names: str) -> Check:
    return " or ".join(names), lambda it: it in names


CHECKS: dict[str, Check] = {
    "direction": _one_of("request", "response"),
    "api": (f"{', '.join(APIS)}, or an API key", lambda it: it in APIS or _whole(0)[1](it)),
    "nth": _whole(1),
    "count": _whole(0),
    "clients": _whole(1),
    "delay_ms": _whole(1),
    "blocks": _whole(1),
    "links": (
        f"any of {', '.join(LINKS)}, separated by commas",
        lambda it: {*map(str.strip, str(it).split(","))} <= {*LINKS},
    ),
    "setting": ("the name of a topic setting", lambda it: isinstance(it, str) and bool(it.strip())),
    "value": ("a value of that setting", lambda it: str(it).strip() != ""),
}
"""What the options of the vocabulary may be; a test holds the two sets equal."""
REQUIRED = {"alter_topic": ("setting", "value"), "delay": ("delay_ms",)}


def errors_in_options(action: str, options: Mapping[str, object]) -> Iterator[str]:
    """What is wrong with the options of a step: the option, its value, what is allowed and a remedy. `action` is
    known."""
    known = ACTS[action].options
    for name, value in options.items():
        if name not in known:
            allowed = ", ".join(sorted(known)) or "none"
            yield f"{name} is given, which {action} does not know; allowed: {allowed}; leave it out"
        elif not CHECKS[name][1](value):
            yield f"{name} is {value!r}; allowed: {CHECKS[name][0]}; it is {known[name]}"
    for name in REQUIRED.get(action, ()):
        if name not in options:
            yield f"{name} is missing; allowed: {CHECKS[name][0]}; it is {known[name]}"

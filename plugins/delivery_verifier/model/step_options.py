"""The options of a fault plan's steps: their meanings and allowed values. Wrong options are refused before a run
starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from delivery_verifier.model.application import CRASH_POINTS

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
"""Maps the name of a request of Kafka's protocol to its API key. Clients under test send these requests."""
Link = Literal["controller", "replication", "client"]
LINKS: tuple[Link, ...] = get_args(Link)
"""The network links of a broker that a fault can cut: to the controller, to the other brokers, and to clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of an action. `meaning` explains the option to people.

    The function `is_allowed` returns whether a value is allowed. `allowed` says in words which values are allowed.
    `required`: whether every step with the action must give the option.
    """

    name: str
    meaning: str
    allowed: str
    is_allowed: Callable[[object], bool]
    required: bool = False


def _is_whole(value: object, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def _number(name: str, meaning: str, low: int = 1, *, required: bool = False) -> Option:
    """Returns an option whose value is a whole number, at least `low`."""
    return Option(
        name=name,
        meaning=meaning,
        allowed=f"a whole number from {low}",
        is_allowed=lambda value: _is_whole(value, low),
        required=required,
    )


CLIENTS = _number("clients", "minimum number of clients affected for the fault to count (default 1)")
FRAMES = (
    Option(
        name="direction",
        meaning="request or response (default response)",
        allowed="request or response",
        is_allowed=lambda value: value in ("request", "response"),
    ),
    Option(
        name="api",
        meaning="name or key of the request in Kafka's protocol (default Produce)",
        allowed=f"{', '.join(APIS)}, or an API key",
        is_allowed=lambda value: value in APIS or _is_whole(value, 0),
    ),
    _number("nth", "start at the N-th match, counted per broker and client.id since the step (default 1)"),
    _number("count", "how many per broker and client.id (default 0: all)", low=0),
    CLIENTS,
)
"""The options of the proxy's actions. They say which requests or responses an action hits (see
`cluster.proxy.rules.ProxyRule`). The option `clients` says how many clients the action must hit to count as effective.
"""
DELAY = _number("delay_ms", "how much later (ms)", required=True)
BLOCKS = _number("blocks", "per partition and producer (default 1)")
LINKS_CUT = Option(
    name="links",
    meaning="any of controller, replication, client; default controller,replication",
    allowed=f"any of {', '.join(LINKS)}, separated by commas",
    is_allowed=lambda value: {*map(str.strip, str(value).split(","))} <= {*LINKS},
)
CRASH_POINT = Option(
    name="at",
    meaning="the crash point at which every member parks",
    allowed=", ".join(CRASH_POINTS),
    is_allowed=lambda value: value in CRASH_POINTS,
    required=True,
)
NTH_BATCH = _number("batch", "in which batch, counted from the order on (default 1)")
NTH_RECORD = _number("record", "at applied: after how many records of the batch (default 1)")


def links_cut(options: Mapping[str, object]) -> tuple[Link, ...]:
    """Returns the links that a step with the action `isolate` cuts. `options` are the options of the step, which were
    checked before.

    The option `links` names these links. Without this option, the step cuts all links except the links to clients.
    """
    names = str(options.get("links", "controller,replication")).split(",")
    return tuple(cast(Link, name.strip()) for name in names)


SETTING = Option(
    name="setting",
    meaning="the topic's, e.g. min.insync.replicas",
    allowed="the name of a topic setting",
    is_allowed=lambda value: isinstance(value, str) and bool(value.strip()),
    required=True,
)
VALUE = Option(
    name="value",
    meaning="its new value",
    allowed="a value of that setting",
    is_allowed=lambda value: str(value).strip() != "",
    required=True,
)


def errors_in_options(action: str, known: tuple[Option, ...], values: Mapping[str, object]) -> Iterator[str]:
    """Yields a text for each wrong option of a step: the option, its value, what is allowed, and a remedy.

    `action` is the name of the step's action. `known` are the options that this action has. `values` are the options
    that the step gives, by name.
    """
    by_name = {option.name: option for option in known}
    for name, value in values.items():
        option = by_name.get(name)
        if option is None:
            allowed = ", ".join(sorted(by_name)) or "none"
            yield f"{name} is given, which {action} does not know; allowed: {allowed}; leave it out"
        elif not option.is_allowed(value):
            yield f"{name} is {value!r}; allowed: {option.allowed}; it is {option.meaning}"
    for option in known:
        if option.required and option.name not in values:
            yield f"{option.name} is missing; allowed: {option.allowed}; it is {option.meaning}"

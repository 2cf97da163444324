"""The proxy's rules: which requests and responses are dropped, held or delayed, which close the connection, and how
often each rule acted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from delivery_verifier.model.step_options import APIS

Direction = Literal["request", "response"]
Hits = dict[str, dict[str, int]]
"""How often a rule acted, by broker id and client.id."""


class ProxyRule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the proxy does to requests of clients to `brokers`, or to the responses.

    drop: the frame is swallowed. hold: the frame, and everything behind it on the connection, waits until the rule is
    released; then all of it is delivered in order, even if the client has hung up meanwhile. delay: the same for
    `delay_ms`. close: both sides of the connection are closed instead. `api`: a name of `step_options.APIS`, or a
    number. The rule acts from the `nth` matching frame on, `count` times (0: always); frames are
    counted per broker and client.id from the moment the rule is in force.
    """

    action: Literal["drop", "hold", "delay", "close"]
    brokers: tuple[int, ...]
    direction: Direction = "response"
    api: str | int = "Produce"
    nth: Annotated[int, Meta(ge=1)] = 1
    count: Annotated[int, Meta(ge=0)] = 0
    delay_ms: Annotated[int, Meta(ge=0)] = 0

    @property
    def key(self) -> str:
        """The rule as text, which identifies the rule. A rule is in force at most once."""
        return msgspec.json.encode(self, order="deterministic").decode()


def rule_of(fields: object) -> ProxyRule:
    """The rule in plain data. Raises ValueError naming the field and what it allows."""
    rule = msgspec.convert(fields, ProxyRule)
    number(rule.api)
    return rule


def number(api: str | int) -> int:
    """The API key. Raises ValueError for an unknown name."""
    if isinstance(api, str) and api not in APIS:
        raise ValueError(f"api is {api!r}; allowed: {', '.join(APIS)}, or a number")
    return APIS[api] if isinstance(api, str) else api


class _RuleInForce:
    """A rule in force. `matched` and `acted`: how often the rule matched and acted, per broker and client.id.
    `brokers`: the brokers that have not been released."""

    def __init__(self, rule: ProxyRule) -> None:
        self.rule, self.api, self.brokers = rule, number(rule.api), set(rule.brokers)
        self.matched: Counter[tuple[int, str]] = Counter()
        self.acted: Counter[tuple[int, str]] = Counter()


class RuleBook:
    """The rules in force, in the order in which they were put. The first that matches a frame decides."""

    def __init__(self) -> None:
        self._in_force: dict[str, _RuleInForce] = {}

    def put(self, rule: ProxyRule) -> None:
        """Puts a rule in force. Raises ValueError if it is in force already."""
        if rule.key in self._in_force:
            raise ValueError(f"this rule is in force already: {rule.key}")
        self._in_force[rule.key] = _RuleInForce(rule)

    def decide(self, direction: Direction, api: int, client: str, broker: int) -> ProxyRule | None:
        """The rule to apply to this request or response; None: the frame passes. Counts the frame."""
        for active in self._in_force.values():
            rule = active.rule
            if rule.direction != direction or active.api != api or broker not in active.brokers:
                continue
            active.matched[broker, client] += 1
            since_nth = active.matched[broker, client] - rule.nth
            if since_nth >= 0 and (not rule.count or since_nth < rule.count):
                active.acted[broker, client] += 1
                return rule
        return None

    def release(self, brokers: Sequence[int]) -> None:
        """Takes `brokers` out of every rule. A rule without brokers is removed, and its counts with it."""
        for key, active in list(self._in_force.items()):
            active.brokers -= set(brokers)
            if not active.brokers:
                del self._in_force[key]

    def hits(self, rule: ProxyRule) -> Hits:
        """How often the rule acted; empty if never, or if it is not in force."""
        hits: Hits = {}
        active = self._in_force.get(rule.key)
        for (broker, client), count in sorted(active.acted.items()) if active else ():
            hits.setdefault(str(broker), {})[client] = count
        return hits

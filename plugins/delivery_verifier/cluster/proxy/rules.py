"""The proxy's rules: which requests and responses are dropped, held, delayed or answered by closing, and how many
were."""

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
    """What is done to the requests of clients to `brokers`, or to their responses.

    drop: swallowed. hold: kept back, and all that follows on the connection behind it, until the rule is released; then
    delivered in order, also if the client has hung up meanwhile. delay: the same for `delay_ms`. close: the connection
    is closed instead, both sides. `api`: a name of `step_options.APIS`, or a number. Counted per broker and client.id
    from the moment the rule is in force: from the `nth` on, and so many as `count` says (0: all).
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
        """The rule itself, by which it is asked for: one rule is in force once."""
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


class _Kept:
    """A rule in force, and what it has seen and done."""

    def __init__(self, rule: ProxyRule) -> None:
        self.rule, self.api, self.brokers = rule, number(rule.api), set(rule.brokers)
        self.seen: Counter[tuple[int, str]] = Counter()
        self.acted: Counter[tuple[int, str]] = Counter()


class RuleBook:
    """The rules in force, in the order in which they came; the first that applies decides."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def put(self, rule: ProxyRule) -> None:
        """Puts a rule in force. Raises ValueError if it is already."""
        if rule.key in self._kept:
            raise ValueError(f"this rule is in force already: {rule.key}")
        self._kept[rule.key] = _Kept(rule)

    def decide(self, direction: Direction, api: int, client: str, broker: int) -> ProxyRule | None:
        """The rule to be done to this request or response, which is counted; None: it passes."""
        for kept in self._kept.values():
            rule = kept.rule
            if rule.direction != direction or kept.api != api or broker not in kept.brokers:
                continue
            kept.seen[broker, client] += 1
            place = kept.seen[broker, client] - rule.nth
            if place >= 0 and (not rule.count or place < rule.count):
                kept.acted[broker, client] += 1
                return rule
        return None

    def release(self, brokers: Sequence[int]) -> None:
        """Takes `brokers` out of every rule; a rule without brokers is gone, and its counts with it."""
        for key, kept in list(self._kept.items()):
            kept.brokers -= set(brokers)
            if not kept.brokers:
                del self._kept[key]

    def hits(self, rule: ProxyRule) -> Hits:
        """How often the rule acted; empty if never, or if it is not in force."""
        found: Hits = {}
        kept = self._kept.get(rule.key)
        for (broker, client), count in sorted(kept.acted.items()) if kept else ():
            found.setdefault(str(broker), {})[client] = count
        return found

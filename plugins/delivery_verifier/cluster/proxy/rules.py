"""The proxy's rules. A rule drops, holds, delays or stalls requests or responses, or closes their connections.

The module also counts how often each rule acted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from delivery_verifier.model.act import APIS

Direction = Literal["request", "response", "begin"]
BEGIN_BYTES, LONG_BYTES = 1 << 14, 1 << 15
"""The size of the begin of a request, and of the shortest request on whose begin a rule acts, both with the size
field."""
Hits = dict[str, dict[str, int]]
"""How often a rule acted. The outer key is the broker id, as text, because JSON requires that. The inner key is the
client.id."""


class ProxyRule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One rule for the frames between clients and `brokers`. A frame is one request or one response.

    `action` says what the rule does to a frame:

    * `drop` discards the frame.
    * `hold` makes the frame wait until the proxy gets a control request `release` (see `proxy.server`) for the broker.
      Later frames of the same connection and direction wait, too. After the release, all these frames are sent in
      order. Held requests are sent even if the client has hung up meanwhile.
    * `delay` makes the frame wait for `delay_ms` milliseconds. Later frames are sent after this frame.
    * `close` closes both sides of the connection, and does not pass the frame on.
    * `stall` reads the first `BEGIN_BYTES` of a request of at least `LONG_BYTES`, and nothing more from its connection
      for `delay_ms` milliseconds, as when a network stops in the middle of a request. Meanwhile the client has to keep
      what fits neither into its send buffer (SO_SNDBUF) nor into the proxy's socket (see `server.AHEAD_BYTES`). The
      stall is a hit if it runs out before the proxy's socket has taken the rest of the request. The proxy cannot see
      whether the rest is in the client's memory or in its send buffer then. `drop`, `hold`, `delay` and `close` act
      on a request that is there as a whole. The direction of `stall` is `begin`, and no other rule has this direction.

    A frame matches if it has the rule's `direction`, comes from or goes to one of `brokers`, and has the API `api` (a
    name in `act.APIS`, or an API key). The rule acts on `count` frames, beginning with the matching frame
    number `nth`. If `count` is 0, the rule acts on all later matching frames. Matching frames are counted

    * separately for each broker and client.id
    * from the moment when the rule is put in force
    * without the frames on which an earlier rule acts.
    """

    action: Literal["drop", "hold", "delay", "close", "stall"]
    brokers: tuple[int, ...]
    direction: Direction = "response"
    api: str | int = "Produce"
    nth: Annotated[int, Meta(ge=1)] = 1
    count: Annotated[int, Meta(ge=0)] = 0
    delay_ms: Annotated[int, Meta(ge=0)] = 0

    @property
    def key(self) -> str:
        """The rule as text. The text identifies the rule, because the same rule cannot be in force twice."""
        return msgspec.json.encode(self, order="deterministic").decode()


class LateEnd(Struct, kw_only=True):
    """An EndTxn request that a rule holds or delays. An EndTxn request ends a transaction.

    * `is_commit`: True if the request commits the transaction of `transactional_id`, False if it aborts the
      transaction.
    * `came_at`: when the proxy got the request (seconds, monotonic).
    * `late_ms`: the time from `came_at` to the broker's answer, in ms. None until the broker answers.
    * `error_code`: Kafka's error code in the broker's answer (0: no error). None until the broker answers.
    * `overtaken_by`: maps an API key to a number of requests. These are the requests that the same client sent to the
      same broker on other connections, between `came_at` and the broker's answer.
    """

    client: str
    broker: int
    transactional_id: str
    is_commit: bool
    came_at: float
    late_ms: int | None = None
    error_code: int | None = None
    overtaken_by: dict[int, int] = {}

    def answer(self, error_code: int, now: float) -> None:
        """Notes the broker's answer. `now` is the monotonic time in seconds."""
        self.error_code, self.late_ms = error_code, round((now - self.came_at) * 1000)


def rule_of(fields: object) -> ProxyRule:
    """Returns the rule that `fields` describes. `fields` maps names of fields of `ProxyRule` to their values, as read
    from JSON.

    Raises ValueError if a field is wrong. The error names the field.
    """
    rule = msgspec.convert(fields, ProxyRule)
    number(rule.api)
    if (rule.action == "stall") != (rule.direction == "begin"):
        raise ValueError(f"direction is {rule.direction}; allowed: begin for stall, request or response for all others")
    return rule


def number(api: str | int) -> int:
    """Returns the API key of `api`. `api` is the name of an API, or already an API key. Raises ValueError if the name
    is unknown."""
    if isinstance(api, str) and api not in APIS:
        raise ValueError(f"api is {api!r}; allowed: {', '.join(APIS)}, or a number")
    return APIS[api] if isinstance(api, str) else api


class _RuleInForce:
    """A rule in force.

    * `matched`: the number of frames that matched the rule, by (broker id, client.id).
    * `acted`: the number of frames on which the rule acted, by (broker id, client.id).
    * `brokers`: the brokers on whose frames the rule still acts. A control request `release` removes brokers from this
      set.
    * `late_ends`: the EndTxn requests that the rule made late, in the order in which they came.
    """

    def __init__(self, rule: ProxyRule) -> None:
        self.rule, self.api, self.brokers = rule, number(rule.api), set(rule.brokers)
        self.matched: Counter[tuple[int, str]] = Counter()
        self.acted: Counter[tuple[int, str]] = Counter()
        self.late_ends: list[LateEnd] = []


class RuleBook:
    """The rules in force, in the order in which they were put in force.

    At most one rule acts on a frame: the first matching rule whose `nth` and `count` (see ProxyRule) select this frame.
    """

    def __init__(self) -> None:
        self._in_force: dict[str, _RuleInForce] = {}

    def put(self, rule: ProxyRule) -> None:
        """Puts a rule in force. Raises ValueError if the rule is in force already."""
        if rule.key in self._in_force:
            raise ValueError(f"this rule is in force already: {rule.key}")
        self._in_force[rule.key] = _RuleInForce(rule)

    def decide(self, direction: Direction, api: int, client: str, broker: int) -> ProxyRule | None:
        """Returns the rule that acts on a frame, or None if no rule acts and the frame passes.

        `api` is the API key of the frame's request. `client` is the client.id of this request. Each matching rule
        counts the frame, up to and including the rule that acts. Later rules do not count the frame. If no rule acts,
        all matching rules count the frame.
        """
        for active in self._in_force.values():
            rule = active.rule
            if rule.direction != direction or active.api != api or broker not in active.brokers:
                continue
            active.matched[broker, client] += 1
            since_nth = active.matched[broker, client] - rule.nth
            if since_nth >= 0 and (not rule.count or since_nth < rule.count):
                if direction != "begin":  # a stall has acted when it is over, see note_stall
                    active.acted[broker, client] += 1
                return rule
        return None

    def note_stall(self, rule: ProxyRule, client: str, broker: int) -> None:
        """Notes that `rule` has stalled a request of `client` to `broker`, until the end. Does nothing if the rule is
        no longer in force."""
        if active := self._in_force.get(rule.key):
            active.acted[broker, client] += 1

    def stalls(self, broker: int) -> bool:
        """Returns whether a rule in force may stall requests to `broker`."""
        return any(active.rule.action == "stall" and broker in active.brokers for active in self._in_force.values())

    def note(self, rule: ProxyRule, end: LateEnd) -> None:
        """Adds `end`, an EndTxn request that `rule` made late, to the late ends of `rule`. `rule` must be in force."""
        self._in_force[rule.key].late_ends.append(end)

    def note_overtaking(self, api: int, client: str, broker: int) -> None:
        """Notes that a request with the API key `api` overtook late EndTxn requests. These are all EndTxn requests that
        a rule made late, that the same client sent to the same broker, and that have no answer yet."""
        for active in self._in_force.values():
            for end in active.late_ends:
                if (end.client, end.broker) == (client, broker) and end.error_code is None:
                    end.overtaken_by[api] = end.overtaken_by.get(api, 0) + 1

    def late_ends(self, rule: ProxyRule) -> list[LateEnd]:
        """Returns the EndTxn requests that the rule made late. The result is empty if the rule is not in force."""
        active = self._in_force.get(rule.key)
        return list(active.late_ends) if active else []

    def release(self, brokers: Sequence[int]) -> None:
        """Removes `brokers` from all rules in force, so that these rules no longer act on frames of these brokers. If a
        rule has no brokers left, removes the rule and its counts."""
        for key, active in list(self._in_force.items()):
            active.brokers -= set(brokers)
            if not active.brokers:
                del self._in_force[key]

    def hits(self, rule: ProxyRule) -> Hits:
        """Returns how often the rule has acted. The result is empty if the rule has not acted, or is not in force.

        A rule is no longer in force after `release` has removed all of its brokers.
        """
        hits: Hits = {}
        active = self._in_force.get(rule.key)
        for (broker, client), count in sorted(active.acted.items()) if active else ():
            hits.setdefault(str(broker), {})[client] = count
        return hits

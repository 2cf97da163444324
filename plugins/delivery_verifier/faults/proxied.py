"""The actions of the proxy, which stands between clients and brokers: what it does to requests and responses, and the
proofs that it did so."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from delivery_verifier.cluster.proxy.rules import LateEnd, ProxyRule, rule_of
from delivery_verifier.faults.action import Action, ActionContext, ActionProof, Done, Harmless
from delivery_verifier.model.act import APIS
from delivery_verifier.model.anomalies import subset
from delivery_verifier.model.history import now_us
from delivery_verifier.model.late_ends import facts_of, name_of

MEANS = "proxy"
"""The means by which these actions are done (see `cluster.means`)."""


@dataclass(frozen=True)
class Frames:
    """Puts a rule in force at the proxy (see ProxyRule). `name` says what the rule does: drop, hold, delay, close or
    stall.

    The option `clients` of the fault plan's step is the number of clients on which the rule must act. All other options
    are fields of the rule. Proof: the rule acted on requests or responses of at least `clients` clients. If the clients
    bypass the proxy, there is no proof. The action `release` heals the injection.
    """

    name: str

    def do(self, context: ActionContext) -> Done:
        """Puts the rule in force.

        Raises RuntimeError if the rule is in force already, and ValueError for a wrong option.
        """
        return Done(context.cluster.agent.apply(MEANS, context.brokers, self._options(context)))

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns how often the rule acted, by broker and client.id. The result is empty while the rule has
        acted on fewer clients than the option `clients` gives (default: 1)."""
        hits = context.cluster.agent.is_in_force(MEANS, context.brokers, self._options(context))
        clients = {client for counts in hits.values() for client in counts}
        enough = len(clients) >= int(context.options.get("clients", 1))
        return {f"broker {broker}": counts for broker, counts in hits.items()} if enough else {}

    def _options(self, context: ActionContext) -> dict[str, object]:
        return {"rule": msgspec.to_builtins(self._rule(context))}

    def _rule(self, context: ActionContext) -> ProxyRule:
        options = {name: value for name, value in context.options.items() if name != "clients"}
        if self.name == "stall":
            options["direction"] = "begin"
        return rule_of({"action": self.name, "brokers": tuple(context.brokers), **options})


API_NAMES = {key: name for name, key in APIS.items()}
"""Maps an API key to the name of the request."""


@dataclass(frozen=True)
class DelayEnd(Frames):
    """Delays the first EndTxn request of each client. EndTxn is the request that ends a transaction. If the client
    repeats the request, the proxy does not delay the repetition.

    * If the client waits for the answer, its transaction only ends later.
    * If the client gives up, it closes the connection and sends the request again. It may then begin its next
      transaction before the late request reaches the coordinator.

    Proof: brokers have answered the late requests of at least `clients` clients. The action `release` heals the
    injection.
    """

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns the late requests that brokers have answered. A key of the mapping names a late request. Its value
        holds these facts:

        * `error_code`: Kafka's error code in the answer (0: no error)
        * `late_ms`: the time from the request to the answer, in ms
        * for each kind of request, e.g. `AddPartitionsToTxn`: how many such requests of the same client overtook the
          late request.

        The result is empty while brokers have answered fewer clients than the option `clients` gives (default: 1).
        """
        options = {**self._options(context), "late_ends": True}
        answer = context.cluster.agent.is_in_force(MEANS, context.brokers, options)
        answered = [end for facts in answer.values() for end in facts["late_ends"]]
        ends = [end for end in msgspec.convert(answered, list[LateEnd], strict=False) if end.error_code is not None]
        enough = len({end.client for end in ends}) >= int(context.options.get("clients", 1))
        return (
            {name_of(end.transactional_id, end.is_commit, end.broker): _facts_of(end) for end in ends} if enough else {}
        )

    def _rule(self, context: ActionContext) -> ProxyRule:
        return ProxyRule(
            action="delay",
            brokers=tuple(context.brokers),
            direction="request",
            api="EndTxn",
            count=1,
            delay_ms=int(context.options["delay_ms"]),
        )


def _facts_of(end: LateEnd) -> dict[str, int]:
    overtaking = {API_NAMES.get(api, f"API {api}"): count for api, count in sorted(end.overtaken_by.items())}
    return facts_of(end.error_code or 0, end.late_ms or 0, overtaking)


@dataclass(frozen=True)
class Release(Harmless):
    """Lets the proxy forward everything again. This heals the injections of all other actions of the proxy."""

    def do(self, context: ActionContext) -> Done:
        """Ends every rule for the target brokers. The proxy then forwards all requests and responses that it held
        back."""
        at_us = now_us()
        context.cluster.agent.undo(MEANS, context.brokers)
        return Done(at_us)


ACTIONS: dict[str, Action] = subset(
    "the actions of the proxy; faults.actions has all",
    {
        "drop": Frames("drop"),
        "hold": Frames("hold"),
        "delay": Frames("delay"),
        "close": Frames("close"),
        "stall": Frames("stall"),
        "delay_end": DelayEnd("delay"),
        "release": Release(),
    },
)

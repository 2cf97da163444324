"""The actions of the proxy on requests and responses, with the proof that the proxy acted."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from delivery_verifier.cluster.proxy.rules import ProxyRule, rule_of
from delivery_verifier.faults.action import ActionContext, ActionProof
from delivery_verifier.model.history import now_us


@dataclass(frozen=True)
class Frames:
    """Puts a rule in force at the proxy (see ProxyRule). `name` is the action of the rule: drop, hold, delay or close.

    A step of the fault plan can set the option `clients`: on how many clients the rule must act. All other options of
    the step are fields of the rule. Proof: the rule acted on requests or responses of at least `clients` clients. So
    there is no proof if the clients bypass the proxy. The action `release` heals the injection.
    """

    name: str

    def do(self, context: ActionContext) -> int:
        """Puts the rule in force.

        Raises RuntimeError if the rule is in force already, and ValueError for a wrong option.
        """
        at_us = now_us()
        context.cluster.proxy("put", rule=msgspec.to_builtins(self._rule(context)))
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns how often the rule acted, by broker and client.id. The result is empty while the rule has
        acted on fewer clients than the option `clients` gives (default: 1)."""
        hits = context.cluster.proxy("hits", rule=msgspec.to_builtins(self._rule(context)))
        clients = {client for counts in hits.values() for client in counts}
        enough = len(clients) >= int(context.options.get("clients", 1))
        return {f"broker {broker}": counts for broker, counts in hits.items()} if enough else {}

    def _rule(self, context: ActionContext) -> ProxyRule:
        options = {name: value for name, value in context.options.items() if name != "clients"}
        return rule_of({"action": self.name, "brokers": tuple(context.brokers), **options})


class Release:
    """Lets the proxy forward everything again. This ends (heals) the actions `drop`, `hold`, `delay` and `close`."""

    def do(self, context: ActionContext) -> int:
        """Ends every rule for the target brokers. The proxy then forwards what it held back."""
        at_us = now_us()
        context.cluster.proxy("release", brokers=context.brokers)
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns an empty proof, because the action breaks nothing."""
        return {}

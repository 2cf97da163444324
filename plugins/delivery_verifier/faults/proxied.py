"""The actions of the proxy: what it does to requests and responses on their way, and that it really did it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from delivery_verifier.cluster.proxy.rules import ProxyRule, rule_of
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.model.history import now_us


@dataclass(frozen=True)
class Frames:
    """Puts a rule in force at the proxy. It has bitten once enough clients were hit: a proxy that is bypassed hits
    none."""

    name: str

    def do(self, context: ActionContext) -> int:
        """Puts the rule in force. Raises RuntimeError if it is already, ValueError for an option of no meaning."""
        at_us = now_us()
        context.cluster.proxy("put", rule=msgspec.to_builtins(self._rule(context)))
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """How often it acted, by broker and client.id; empty while fewer clients than wanted were hit."""
        hits = context.cluster.proxy("hits", rule=msgspec.to_builtins(self._rule(context)))
        clients = {client for found in hits.values() for client in found}
        enough = len(clients) >= int(context.options.get("clients", 1))
        return {f"broker {broker}": found for broker, found in hits.items()} if enough else {}

    def _rule(self, context: ActionContext) -> ProxyRule:
        options = {name: value for name, value in context.options.items() if name != "clients"}
        return rule_of({"action": self.name, "brokers": tuple(context.brokers), **options})


class Release:
    """Lets the proxy forward everything again."""

    def do(self, context: ActionContext) -> int:
        """Ends every rule at the brokers; what was held back goes out."""
        at_us = now_us()
        context.cluster.proxy("release", brokers=context.brokers)
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """Nothing was broken."""
        return {}

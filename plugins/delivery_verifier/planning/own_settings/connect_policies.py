"""What a worker of Kafka Connect lets its connectors override: connector.client.config.override.policy.

A connector that overrides what its worker does not allow is not started. Source: KIP-458, KIP-722 (the default is All
since Kafka 3.0, and was None), KIP-1188 (Allowlist, since 4.2), and the policies in `connect-runtime` 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings.translation import printable_name

POLICY = "connector.client.config.override.policy"
_ALLOWLIST = "connector.client.config.override.allowlist"
_PRINCIPAL = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_DEFAULT = "All"
_SUFFIX = "ConnectorClientConfigOverridePolicy"


def note_on_worker(of_worker: Mapping[str, str], role: str) -> str:
    """Returns a sentence on what connectors may override of this worker's settings for producers or consumers
    (`role`)."""
    prefix, policy = f"{role}.override.", _policy(of_worker)
    if POLICY not in of_worker:
        return (
            f"a connector's own {prefix} settings would count before these; before Kafka 3.0 a worker without {POLICY} "
            "does not start such a connector"
        )
    if policy == "All":
        return f"{POLICY}=All: a connector's own {prefix} settings would count before these"
    allowed = _allowed(of_worker)
    if allowed is None:
        return f"{POLICY} names a class of your own: whether a connector may override these settings is not known"
    if not allowed:
        return f"{POLICY}={policy}: a connector with {prefix} settings does not start, so these are in force"
    names = ", ".join(map(printable_name, allowed))
    return f"{POLICY}={policy}: a connector may override only {names}"


def note_on_connector(prefix: str) -> str:
    """Returns a sentence on the worker that a connector with overrides needs. `prefix`: that of its overrides."""
    return (
        f"the {prefix} settings need a worker that allows them: {POLICY}=All, the default since Kafka 3.0; with None, "
        "the default before, the connector does not start"
    )


def require_allowed(overridden: Iterable[str], of_worker: Mapping[str, str], prefix: str, field: str) -> None:
    """Raises BadInput if the worker does not allow a connector to override one of these names, or if nobody knows.

    `prefix`: what stands before the names in the connector's configuration.
    """
    if _policy(of_worker) == "All":
        return
    allowed = _allowed(of_worker)
    for name in overridden:
        if allowed is None:
            raise BadInput(
                f"{field}: {POLICY} names a class of your own, so whether {prefix}{printable_name(name)} counts is not "
                "known; leave the connector out, or its overrides"
            )
        if name not in allowed:
            raise BadInput(
                f"{field}: the connector does not start: its worker has {POLICY}={_policy(of_worker)}, which does not "
                f"allow {prefix}{printable_name(name)}; remove it, or allow it"
            )


def _policy(of_worker: Mapping[str, str]) -> str:
    """Returns the name of the policy, without what its class has around the name."""
    return of_worker.get(POLICY, _DEFAULT).rpartition(".")[2].removesuffix(_SUFFIX)


def _allowed(of_worker: Mapping[str, str]) -> tuple[str, ...] | None:
    """Returns the names that the worker allows, if its policy is None, Principal or Allowlist. Returns None if nobody
    knows them."""
    policy = _policy(of_worker)
    listed = tuple(name.strip() for name in of_worker.get(_ALLOWLIST, "").split(",") if name.strip())
    return {"None": (), "Principal": _PRINCIPAL, "Allowlist": listed}.get(policy)

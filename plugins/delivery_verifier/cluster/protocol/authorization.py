"""Refusals because a right is missing: Kafka's error codes for them, and the error that names resource and right."""

from __future__ import annotations

from delivery_verifier.model.errors import VerifierError

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = "topic", "group", "cluster", "transactional-id"
"""The kinds of resources that rights are about, as the options of `kafka-acls` name them."""
REFUSED = {29: TOPIC, 30: GROUP, 31: CLUSTER, 53: TRANSACTIONAL_ID}
"""Kafka's error codes of a missing right, each with the kind of the resource."""


class NotAuthorized(VerifierError, RuntimeError):
    """The cluster does not let this client do something. The message names the resource and the right.

    It is no OSError: waiting and asking again would change nothing.
    """

    def __init__(self, code: int, resource: str, right: str) -> None:
        self.code, self.resource, self.right = code, resource, right
        kind = REFUSED[code]
        named = kind if kind == CLUSTER else f"{kind} {resource}"
        super().__init__(f"the right {right} on the {named} is missing (error {code})")


def require(code: int, resource: str, right: str) -> None:
    """Raises NotAuthorized if `code` says that the right `right` on `resource` is missing."""
    if code in REFUSED:
        raise NotAuthorized(code, resource, right)

"""The registry of backends. `ClusterSpec.backend` names the backend that runs a scenario's cluster."""

from __future__ import annotations

from delivery_verifier.cluster.backend import Backend
from delivery_verifier.cluster.embedded.backend import EmbeddedBackend
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import ClusterSpec

BACKENDS: dict[str, Backend] = {
    "embedded": EmbeddedBackend(),
}
"""Every backend, by its name in scenarios."""


def backend_of(spec: ClusterSpec) -> Backend:
    """Returns the backend that `spec` names. Raises BadInput if there is no such backend."""
    if spec.backend not in BACKENDS:
        raise BadInput(f"cluster.backend is {spec.backend!r}; allowed: {', '.join(BACKENDS)}")
    return BACKENDS[spec.backend]


def default_backend() -> Backend:
    """Returns the backend of a scenario that names no backend."""
    return backend_of(ClusterSpec())

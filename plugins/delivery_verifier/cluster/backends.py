"""The registry of backends. A scenario names the backend of its cluster in `ClusterSpec.backend`."""

from __future__ import annotations

import os
from importlib import import_module

from delivery_verifier.cluster.backend import Observed, Owned, Shared
from delivery_verifier.model.inputs import BadInput, choice
from delivery_verifier.model.scenario import ClusterSpec

NAMES = ("embedded", "docker", "external")
"""The names by which scenarios choose a backend. Each name is also the name of a folder beside this file. In that
folder, the module `backend` holds the backend in its constant `BACKEND`."""

BACKENDS: dict[str, Observed] = {
    name: import_module(f"delivery_verifier.cluster.{name}.backend").BACKEND for name in NAMES
}
"""Every backend, by its name."""


def default_name() -> str:
    """Returns the name of the backend for scenarios that name no backend.

    The environment variable KDV_CLUSTER holds this name. If the variable is unset, returns the first name in `NAMES`.
    Raises BadInput if there is no backend with the name that the variable holds.
    """
    return choice("KDV_CLUSTER", os.environ.get("KDV_CLUSTER") or NAMES[0], tuple(BACKENDS))


def backend_of(spec: ClusterSpec) -> Observed:
    """Returns the backend that `spec` names. Raises BadInput if there is no such backend."""
    if spec.backend not in BACKENDS:
        raise BadInput(f"cluster.backend is {spec.backend!r}; allowed: {', '.join(BACKENDS)}")
    return BACKENDS[spec.backend]


def default_backend() -> Observed:
    """Returns the backend for scenarios that name no backend (see `default_name`)."""
    return BACKENDS[default_name()]


def owning_backends() -> list[Owned]:
    """Returns the backends that start clusters. Only these leave anything on this host."""
    return [backend for backend in BACKENDS.values() if isinstance(backend, Owned)]


def sharing_backends() -> list[Shared]:
    """Returns the backends whose clusters others use, too. Only these leave anything on a cluster that goes on."""
    return [backend for backend in BACKENDS.values() if isinstance(backend, Shared)]

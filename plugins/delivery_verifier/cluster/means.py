"""Means: what a fault is done by, e.g. rules of a packet filter. A backend has one module per means, in its folder
`means`. The name of the module is the name of the means, and `Act.means` names it.

A module of a means has:

* a class `BrokerMeans`, which is a `Means`. Its only argument is the cluster's agent.
* a function `unavailable`, which returns why this host cannot use the means, or None if it can. Only means of the
  embedded backend have this function, and only those that are a capability (see act.Capability).

The agent of a cluster finds a means by its name. So a new means needs no new operation anywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

Facts = dict[int, dict[str, Any]]
"""What is in force, by the id of each broker on which it is in force."""


class Means(ABC):
    """One means of one cluster. Its code runs in the cluster's agent, in the agent's main thread.

    `nodes` are ids of brokers. `options` are what the action says more, as JSON has it; each means explains its own.
    """

    @abstractmethod
    def apply(self, nodes: list[int], options: Mapping[str, Any]) -> int:
        """Breaks `nodes`. Returns the wall time (µs) just before the first of them could be affected.

        Raises ValueError if that is not possible, and RuntimeError with the reason if the host refuses.
        """

    @abstractmethod
    def undo(self, nodes: list[int]) -> None:
        """Ends what `apply` did to `nodes`. Does nothing to others."""

    @abstractmethod
    def is_in_force(self, nodes: list[int], options: Mapping[str, Any]) -> Facts:
        """Returns what shows now that the means is in force. Leaves out a node on which nothing shows it."""

    def end(self) -> None:
        """Removes from the host what would outlive the brokers. Called once no broker runs any more."""
        return


@cache
def names(package: str) -> tuple[str, ...]:
    """Returns the names of the means of the backend in `package`, in the order of the alphabet."""
    return tuple(sorted(module.name for module in iter_modules(import_module(f"{package}.means").__path__)))


def module(package: str, name: str) -> Any:
    """Returns the module of a means of the backend in `package`. Raises ValueError if the backend has no such means."""
    if name not in names(package):
        raise ValueError(absence(package, name))
    return import_module(f"{package}.means.{name}")


def absence(package: str, name: str) -> str:
    """Returns why the backend in `package` cannot use the means `name`, which it has no module of."""
    return f"this backend has no means {name}; it has: {', '.join(names(package))}"

"""Clusters for tests: cluster agents (the parent processes of the brokers) with limits that a test sets, and a new
cluster of three brokers for each module that asks for one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.kept_clusters import Kept, three_brokers
from support.own_host import own_host
from support.renewals import Renewals

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.processes import ProcessId
from delivery_verifier.model.act import Capability
from delivery_verifier.model.scenario import ClusterSpec


@pytest.fixture(scope="session", autouse=True)
def _own_host() -> Iterator[Path]:
    with own_host() as folder:
        yield folder


@pytest.fixture
def keep(_own_host: Path) -> Iterator[Callable[..., Kept]]:
    """A function that starts a cluster agent of one controller and one broker. The cluster agents are killed after the
    test."""
    made: list[Kept] = []

    def start(owner: ProcessId | None = None, capabilities: tuple[Capability, ...] = (), **more: float) -> Kept:
        spec = ClusterSpec(brokers=1, capabilities=capabilities)
        made.append(Kept(_own_host / "ws" / uuid.uuid4().hex[:8], spec, owner, **more))
        return made[-1]

    yield start
    for kept in made:
        kept.process.kill()
        kept.process.wait()


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> Renewals:
    """The renewals that this process sends to cluster agents."""
    return Renewals(monkeypatch)


@pytest.fixture(scope="module")
def cluster(_own_host: Path) -> Iterator[Cluster]:
    """A new cluster of three brokers. It lives until the tests of the module have ended."""
    with three_brokers(_own_host / "ws") as cluster:
        yield cluster

"""All modules of this folder share one cluster of three brokers. Starting three brokers is expensive. Brokers that have
run for a while answer sooner.

A module may kill and freeze brokers. After each module, all brokers run, all replicas are in sync, and the module's
topics are deleted. A module that needs a cluster on which nothing has happened belongs in the folder above. A module
that kills no broker belongs in `calm_cluster`, where no stall of the host moves a leader.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kept_clusters import make_whole, three_brokers

from delivery_verifier.cluster.handle import Cluster


@pytest.fixture(scope="package")
def cluster(_own_host: Path) -> Iterator[Cluster]:
    """A cluster of three brokers with a short session timeout. It lives until the tests of this folder have ended."""
    with three_brokers(_own_host / "ws") as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def _whole_for_the_next_module(cluster: Cluster) -> Iterator[None]:
    yield
    make_whole(cluster)

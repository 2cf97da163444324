"""All modules of this folder share one cluster of three brokers on which no leader moves by itself: a broker may be
silent for a minute before another one takes its place. So no stall of the host looks like a fault.

No module may kill a broker, or freeze one for long, because each test would then wait a minute. After each module, all
replicas are in sync, and the module's topics are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kept_clusters import make_whole, three_brokers

from delivery_verifier.cluster.handle import Cluster

SESSION_MS = 60_000
"""The longest session that a ClusterSpec may have."""


@pytest.fixture(scope="package")
def cluster(_own_host: Path) -> Iterator[Cluster]:
    """A cluster of three brokers with a long session timeout. It lives until the tests of this folder have ended."""
    with three_brokers(_own_host / "ws", SESSION_MS) as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def _whole_for_the_next_module(cluster: Cluster) -> Iterator[None]:
    yield
    make_whole(cluster)

"""All modules of this folder share one cluster of three brokers. Starting three brokers is expensive. Brokers that have
run for a while answer sooner.

A module may kill and freeze brokers. After each module, all brokers run, all replicas are in sync, and the module's
topics are deleted. A module that needs a cluster on which nothing has happened belongs in the folder above.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kept_clusters import three_brokers
from support.patience import PATIENCE_S

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.actions import heal
from delivery_verifier.host.waiting import wait_until


@pytest.fixture(scope="package")
def cluster(_own_host: Path) -> Iterator[Cluster]:
    """A cluster of three brokers with a short session timeout. It lives until the tests of this folder have ended."""
    with three_brokers(_own_host / "ws") as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def _whole_for_the_next_module(cluster: Cluster) -> Iterator[None]:
    yield
    heal(cluster)
    cluster.wait_up()
    admin = topics.admin(cluster.connection)
    names = [*admin.list_topics(timeout=PATIENCE_S).topics]
    wait_until(
        lambda: cluster.isr_full(names),
        "the cluster to be whole",
        PATIENCE_S,
        detail=lambda: cluster.out_of_sync(names),
    )
    cluster.watch([])
    if own := [name for name in names if not name.startswith("__")]:  # a starting broker reads every log
        for deleted in admin.delete_topics(own).values():
            deleted.result(PATIENCE_S)

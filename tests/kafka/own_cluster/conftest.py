"""All modules of this folder share one cluster that the verifier has not started: SASL_SSL, mutual TLS, and ACLs.

No module may kill a broker. A test that needs rights grants them itself, and takes nothing for granted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.secured_cluster import SecuredCluster, secured_cluster

from delivery_verifier.cluster.security import command_config
from delivery_verifier.cluster.security.reading import Access

Written = Callable[..., str]


@pytest.fixture(scope="package")
def secured(_own_host: Path) -> Iterator[SecuredCluster]:
    """The cluster. It lives until the tests of this folder have ended."""
    with secured_cluster(_own_host / "secured") as cluster:
        yield cluster


@pytest.fixture
def config(tmp_path: Path) -> Written:
    """Writes properties into a file of mode 0600, and returns its path."""

    def write(properties: dict[str, str]) -> str:
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        path.chmod(0o600)
        return str(path)

    return write


@pytest.fixture
def access(config: Written) -> Callable[[dict[str, str]], Access]:
    """Reads properties as `--command-config` does."""
    return lambda properties: command_config.read(config=config(properties))

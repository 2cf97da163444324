"""Every end-to-end test runs on a host of its own: home, lock and workspaces that no other run shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import plain_run, shots  # noqa: F401  (fixtures)
from support.own_host import own_host


@pytest.fixture(scope="session", autouse=True)
def e2e_host() -> Iterator[Path]:
    """The folder that holds home/, lock and ws/ of all end-to-end runs."""
    with own_host() as folder:
        yield folder

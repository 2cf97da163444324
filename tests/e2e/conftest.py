"""Gives all end-to-end tests a home, a lock and workspaces that no other run shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import plain_run, shots  # noqa: F401  (fixtures)
from support.own_host import own_host


@pytest.fixture(scope="session", autouse=True)
def e2e_host() -> Iterator[Path]:
    """The folder with the home, the lock and the workspaces of all end-to-end runs."""
    with own_host() as folder:
        yield folder

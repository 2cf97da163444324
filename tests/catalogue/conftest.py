"""Gives all tests of this folder a home, a lock and workspaces that no other run shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser_version import pytest_runtest_makereport  # noqa: F401  (a hook)
from support.own_host import own_host


@pytest.fixture(scope="session", autouse=True)
def host_folder() -> Iterator[Path]:
    """The folder with the home, the lock and the workspaces of all runs of this folder."""
    with own_host() as folder:
        yield folder

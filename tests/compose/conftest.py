"""What the tests of docker-compose.yml share. `make test-compose` sets the variables; without them the tests skip."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser_version import pytest_runtest_makereport  # noqa: F401  (a hook)

sys.path.insert(0, str(Path(__file__).parent))

from composition import Composition


@pytest.fixture(scope="session")
def composition(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composition]:
    """The composition, which the first test brings up. At the end, everything is removed."""
    if "KDV_TEST_ENGINE" not in os.environ:
        pytest.skip("no engine is named in KDV_TEST_ENGINE: run make test-compose")
    composed = Composition(tmp_path_factory.mktemp("composed"), os.environ["KDV_TEST_COMPOSE"])
    try:
        yield composed
    finally:
        composed.make("compose-down", "VOLUMES=1", check=False)

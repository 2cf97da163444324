"""Names the browser when a test of a page or a picture fails. Another Chromium may show a page in another way, although
nobody has changed it.

A conftest imports the hook of this module.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from typing import Any

import pytest

from support.patience import PATIENCE_S


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the version of the browser to the report of a failed test. The module of the test has CHROMIUM, the path of
    the browser."""
    report = yield
    chromium: Any = getattr(getattr(item, "module", None), "CHROMIUM", None)
    if report.failed and chromium:
        said = subprocess.run([chromium, "--version"], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        report.sections.append(("Browser", said.stdout.strip() or said.stderr))
    return report

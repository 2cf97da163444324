"""Great Expectations, imported without libraries that no suite needs.

Great Expectations imports libraries for drawing, statistics and databases, because some of its expectations need them.
The expectations in the suites of this project do not. So this module keeps these libraries from being loaded.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

WITHHELD_MODULES = ("pyspark", "pyspark.ml", "pyspark.sql.connect", "sqlalchemy")
"""The modules that Great Expectations does not get during its import. Great Expectations takes them for not installed,
and works without them (`great_expectations.compatibility`)."""
LAZY_MODULES = ("altair", "scipy.stats")
"""The modules that Great Expectations cannot be imported without. The first access to an attribute of such a module
loads it. No suite makes such an access."""


class _LeanFinder(MetaPathFinder):
    """Finds the modules in WITHHELD_MODULES and LAZY_MODULES, for imports in the thread that created this object.

    Another thread may need these modules at the same time, and gets them as usual.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module in LAZY_MODULES. Returns None for a module that other finders must find. Raises
        ModuleNotFoundError for a module in WITHHELD_MODULES."""
        if threading.get_ident() != self._thread:
            return None
        if fullname in WITHHELD_MODULES:
            raise ModuleNotFoundError(f"{fullname} is withheld from Great Expectations", name=fullname)
        spec = PathFinder.find_spec(fullname, path, target) if fullname in LAZY_MODULES else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def _lean_imports() -> Iterator[None]:
    finder = _LeanFinder()
    # A new list each time: another thread that goes through the old list would leave out a finder if it got shorter.
    sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path = [other for other in sys.meta_path if other is not finder]


with _lean_imports():
    import great_expectations
    import great_expectations.render.renderer.site_builder  # else imported when the first page is written
    from great_expectations import ExpectationSuite
    from great_expectations.data_context.types.base import DataContextConfig, ProgressBarsConfig
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )
    from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import (
        ExpectColumnPairValuesToBeEqual,
    )
    from great_expectations.expectations.core.expect_column_values_to_be_between import (
        ExpectColumnValuesToBeBetween,
    )
    from great_expectations.expectations.row_conditions import Column
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.renderer.renderer import Renderer
    from great_expectations.render.view import DefaultJinjaPageView

__all__ = [
    "Column",
    "DataContextConfig",
    "DefaultJinjaPageView",
    "ExpectColumnPairValuesToBeEqual",
    "ExpectColumnValuesToBeBetween",
    "ExpectationSuite",
    "ExpectationSuiteIdentifier",
    "ProgressBarsConfig",
    "Renderer",
    "ValidationResultIdentifier",
    "ValidationResultsPageRenderer",
    "great_expectations",
]

"""Great Expectations: the only module that imports it, and all that this project takes of it."""

from __future__ import annotations

import great_expectations
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

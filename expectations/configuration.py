"""The configuration of Great Expectations: where results and Data Docs go, and by which classes pages are written.

This module imports Great Expectations, which takes seconds (see `expectations.validation`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expectations.library import DataContextConfig, ProgressBarsConfig

HISTORY = 500
"""The greatest number of validations that the index page of Data Docs lists."""


_MEMORY = {"class_name": "InMemoryStoreBackend"}


def in_memory() -> Any:
    """Returns the configuration with which Great Expectations evaluates. It touches no file."""
    return _configuration(_MEMORY, {})


def of_site(folder: Path, site: str) -> Any:
    """Returns the configuration with which Great Expectations writes Data Docs. Results and pages go to files below
    `folder`. Everything else stays in memory. `site`: the name of the site of Data Docs."""
    pages = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": _files(folder),
        "site_index_builder": {
            "class_name": "DefaultSiteIndexBuilder",
            "validation_results_limit": HISTORY,
            "renderer": _ours("Listed"),
            "view": _ours("Index"),
        },
        "site_section_builders": {
            "expectations": {"view": _ours("Page")},
            # This filter hides no run. The default filter hides every run with `profiling` in its name.
            "validations": {
                "renderer": _ours("Results"),
                "view": _ours("Page"),
                "run_name_filter": {"matches_regex": "."},
            },
            "profiling": "none",
        },
    }
    return _configuration(_files(folder / ".results"), {site: pages})


def _configuration(results: dict[str, str], sites: dict[str, Any]) -> Any:
    """`results`: the place where results are stored. `sites`: the sites of Data Docs, by name."""
    return DataContextConfig(
        stores={
            "results": {"class_name": "ValidationResultsStore", "store_backend": results},
            "suites": {"class_name": "ExpectationsStore", "store_backend": _MEMORY},
            "checkpoints": {"class_name": "CheckpointStore", "store_backend": _MEMORY},
            "validation_definition_store": {"class_name": "ValidationDefinitionStore", "store_backend": _MEMORY},
        },
        validation_results_store_name="results",
        expectations_store_name="suites",
        checkpoint_store_name="checkpoints",
        data_docs_sites=sites,
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )


def _ours(name: str) -> dict[str, str]:
    """Returns the configuration entry that makes Great Expectations use the class `name` of `data_docs.views`. The
    pages of this class need no network."""
    return {"module_name": "expectations.data_docs.views", "class_name": name}


def _files(folder: Path) -> dict[str, str]:
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}

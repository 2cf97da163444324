"""Views of Data Docs whose pages carry their own style. The stock pages load style and scripts from public hosts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.renderer.renderer import Renderer
from great_expectations.render.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader

import delivery_verifier

_PAGES = Path(delivery_verifier.__file__).parent / "pages"
_TEMPLATES = [folder / "templates" for folder in (Path(__file__).parent, _PAGES / "overview", _PAGES)]


class Results(ValidationResultsPageRenderer):
    """Validation results that name what was validated. For a data frame the stock renderer says `Data asset: None`."""

    def render(self, validation_results: Any, suite_parameters: Any = None) -> Any:
        """The page's content as Great Expectations renders it."""
        meta = validation_results.meta
        asset = (meta.get("active_batch_definition") or {}).get("data_asset_name")
        if asset and isinstance(meta.get("batch_spec"), dict):
            meta["batch_spec"].setdefault("data_asset_name", asset)
        return super().render(validation_results, suite_parameters)

    def _determine_page_title(
        self, run_name: str, run_time: str, data_asset_name: str, expectation_suite_name: str
    ) -> str:
        """The title with the run's name. The stock renderer reads run names as times, and fails for
        `20260101T000000-2764`, which would be 27 hours from Greenwich."""
        return " / ".join([expectation_suite_name, data_asset_name, run_name, run_time])


class Page(DefaultJinjaPageView):
    """A page of the site: Great Expectations' own content in templates that load nothing."""

    def __init__(self, custom_styles_directory: str | None = None, custom_views_directory: str | None = None) -> None:
        super().__init__(custom_styles_directory, custom_views_directory)
        # In front of the stock templates, so that templates of the same name here win.
        stock = [self.env.loader] if self.env.loader else []
        self.env.loader = ChoiceLoader([FileSystemLoader(_TEMPLATES), *stock])


class Listed(Renderer):
    """The index page's content: the links to all validations as they are."""

    @classmethod
    def render(cls, index_links_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        """The links, unchanged. `Index` renders them as a page."""
        return index_links_dict


class Index(Page):
    """The index page: one row per validation, newest run first, with whether it succeeded."""

    def render(self, document: Mapping[str, Any], template: str | None = None, **more: Any) -> str:
        """The page; `document` are the links that the site builder collected."""
        validations = sorted(
            document.get("validations_links", []), key=lambda link: str(link["run_time"]), reverse=True
        )
        runs: dict[str, list[Mapping[str, Any]]] = {}
        for link in validations:
            runs.setdefault(str(link["run_name"]), []).append(link)
        page = self.env.get_template("validations.html")
        suites = document.get("expectations_links", [])
        return str(page.render(runs=runs, suites=suites, count=len(validations), asset=_asset, when=_when))


def _asset(link: Mapping[str, Any]) -> str:
    """What was validated: an arm's name, or `evidence`. (The batch itself has the name of its source, `books`.)"""
    return str(link["asset_name"] or link["batch_identifier"]).removeprefix("books-")


def _when(link: Mapping[str, Any]) -> str:
    return f"{link['run_time']:%Y-%m-%d %H:%M}"

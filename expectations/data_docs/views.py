"""Views of Data Docs whose pages contain their own style, so that a reader needs no network.

The stock pages of Great Expectations load styles and scripts from public hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import BytecodeCache, ChoiceLoader, FileSystemLoader
from jinja2.bccache import Bucket

import delivery_verifier
from expectations.library import DefaultJinjaPageView, Renderer, ValidationResultsPageRenderer

_PAGES = Path(delivery_verifier.__file__).parent / "reporting"
_TEMPLATES = [folder / "templates" for folder in (Path(__file__).parent, _PAGES / "overview", _PAGES)]


class Results(ValidationResultsPageRenderer):
    """Renders validation results. The page shows the name of the arm or suite that was validated.

    For a data frame, the stock renderer would show `Data asset: None`.
    """

    def render(self, validation_results: Any, suite_parameters: Any = None) -> Any:
        """Returns the content of the page. Adds the name of the data asset to the page's metadata. This name is the
        name of an arm, or `evidence`."""
        meta = validation_results.meta
        asset = (meta.get("active_batch_definition") or {}).get("data_asset_name")
        if asset and isinstance(meta.get("batch_spec"), dict):
            meta["batch_spec"].setdefault("data_asset_name", asset)
        return super().render(validation_results, suite_parameters)

    def _determine_page_title(
        self, run_name: str, run_time: str, data_asset_name: str, expectation_suite_name: str
    ) -> str:
        """Returns the title of the page, with the run's name.

        The stock renderer would read the run's name as a time. It fails for a name such as `20260101T000000-2764`,
        where `-2764` looks like a time zone 27 hours from UTC.
        """
        return " / ".join([expectation_suite_name, data_asset_name, run_name, run_time])


class Compiled(BytecodeCache):
    """The compiled templates of this process, by the key that Jinja gives each of them."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fills `bucket` if its template was compiled before, from the same source."""
        if bucket.key in self._code:
            bucket.bytecode_from_string(self._code[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keeps the compiled template of `bucket`."""
        self._code[bucket.key] = bucket.bytecode_to_string()


_COMPILED = Compiled()


class Page(DefaultJinjaPageView):
    """Renders a page of the site. Great Expectations provides the content of the page. This class replaces stock
    templates, so that the page loads nothing from a network.

    Great Expectations makes a view for each section of each validation, and each view would compile its templates anew.
    So all views of a process share the compiled templates.
    """

    def __init__(self, custom_styles_directory: str | None = None, custom_views_directory: str | None = None) -> None:
        super().__init__(custom_styles_directory, custom_views_directory)
        # These folders precede the stock templates, so that their templates replace stock templates of the same name.
        stock = [self.env.loader] if self.env.loader else []
        self.env.loader = ChoiceLoader([FileSystemLoader(_TEMPLATES), *stock])
        self.env.bytecode_cache = _COMPILED


class Listed(Renderer):
    """Replaces the stock renderer of the index page. This class passes the links to all validations unchanged to the
    view `Index`."""

    @classmethod
    def render(cls, index_links_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the links unchanged."""
        return index_links_dict


class Index(Page):
    """Renders the index page: one row per validation, newest run first. A row says whether the validation succeeded."""

    def render(self, document: Mapping[str, Any], template: str | None = None, **more: Any) -> str:
        """Returns the page as HTML. `document` has the links that the site builder of Great Expectations collected.

        `template` and `more`, which the stock view takes, are ignored.
        """
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
    """Returns what was validated: the name of an arm, or `evidence`. If `link` has only a batch identifier, the prefix
    of the identifier (the name of its source) is cut off."""
    return str(link["asset_name"] or link["batch_identifier"]).removeprefix("tally-")


def _when(link: Mapping[str, Any]) -> str:
    """Returns when the validation ran, to the minute."""
    return f"{link['run_time']:%Y-%m-%d %H:%M}"

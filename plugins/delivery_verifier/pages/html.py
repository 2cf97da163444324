"""The HTML of all pages: one set of templates, escaped by default, and scripts that only run if the page names them."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from delivery_verifier.pages import words
from delivery_verifier.pages.doubts import advice

_PAGES = Path(__file__).parent
_TEMPLATES = _PAGES / "templates"


@cache
def environment() -> Environment:
    """The templates of all pages. Every value is escaped but the markup that this project writes itself.

    Great Expectations makes an environment of its own for Data Docs; expectations/data_docs only adds its templates.
    """
    templates = Environment(
        loader=FileSystemLoader([_TEMPLATES, _PAGES / "overview" / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printed,
    )
    templates.filters.update(
        number=words.number,
        plain=words.plain,
        said=words.said,
        clean=words.clean,
        headline=words.headline,
        latency=words.latency,
        when=_when,
        path=_path,
    )
    templates.globals.update(words=words, advice=advice)
    return templates


def _printed(value: object) -> object:
    """What an expression of a template prints: no control characters, and a dash for nothing."""
    if value is None:
        return "–"
    return value if isinstance(value, (Markup, int, float)) else words.clean(value)


def _when(moment: datetime) -> str:
    """A moment as `2026-11-21 02:00`, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _path(name: str) -> str:
    """A name as one part of an address."""
    return quote(name, safe="")


@cache
def asset(name: str) -> str:
    """A file beside the templates, as text."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def source_of(script: str) -> str:
    """The script's source expression for the page's own content security policy: nothing else may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"

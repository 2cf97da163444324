"""The HTML of all pages: one set of templates, escaped by default. A page runs only the scripts that it names."""

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
    """The templates of all pages. Every value is escaped except for markup that this project writes itself.

    Great Expectations makes an environment of its own for Data Docs; expectations/data_docs only adds its templates.
    """
    templates = Environment(
        loader=FileSystemLoader([_TEMPLATES, _PAGES / "overview" / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    templates.filters.update(
        number=words.number,
        plain_name=words.plain_name,
        without_verdict=words.without_verdict,
        clean=words.clean,
        headline=words.headline,
        latency=words.latency,
        utc_minute=_utc_minute,
        address_part=_address_part,
    )
    templates.globals.update(words=words, advice=advice)
    return templates


def _printable(value: object) -> object:
    """What a template prints for a value: the value without control characters, a dash for None."""
    if value is None:
        return "–"
    return value if isinstance(value, (Markup, int, float)) else words.clean(value)


def _utc_minute(time: datetime) -> str:
    """A time as `2026-11-21 02:00`, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"


def _address_part(name: str) -> str:
    """A name as one part of an address."""
    return quote(name, safe="")


@cache
def asset(name: str) -> str:
    """A file beside the templates, as text."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def source_of(script: str) -> str:
    """The source expression that allows `script` in the page's content security policy: no other script may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"

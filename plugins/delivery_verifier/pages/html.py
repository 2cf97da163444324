"""The HTML of all pages: the Jinja templates, which escape values by default, and the content security policy.

The policy of a page names the scripts that a browser may run on this page.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from delivery_verifier.pages import words

_PAGES = Path(__file__).parent
_TEMPLATES = _PAGES / "templates"


@cache
def environment() -> Environment:
    """Returns the Jinja environment of all pages.

    The environment escapes every value except for Markup, which only the code of this project builds.

    Data Docs do not use this environment. Great Expectations makes its own environment for Data Docs.
    expectations/data_docs only adds templates to that environment.
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
        with_code=_with_code,
    )
    templates.globals.update(words=words)
    return templates


def _printable(value: object) -> object:
    """Returns what a template prints for `value`.

    This is an en dash for None, the value itself for Markup and numbers, and the result of `words.clean` for all other
    values.
    """
    if value is None:
        return "–"
    return value if isinstance(value, (Markup, int, float)) else words.clean(value)


def _with_code(text: str) -> Markup:
    """Returns a sentence as HTML. Text between two backquotes, e.g. a command, becomes an HTML element for code."""
    parts = [escape(words.clean(part)) for part in text.split("`")]
    parts[1::2] = [Markup("<code>{}</code>").format(part) for part in parts[1::2]]
    return Markup("").join(parts)


def _utc_minute(time: datetime) -> str:
    """Returns a time as text in UTC, e.g. `2026-11-21 02:00`."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"


def _address_part(name: str) -> str:
    """Returns the text `name`, percent-encoded for use between two slashes of a URL."""
    return quote(name, safe="")


@cache
def asset(name: str) -> str:
    """Returns the text of the file `name` in the folder of the templates."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def source_of(script: str) -> str:
    """Returns the SHA-256 hash of `script`. The hash has the form that a content security policy needs to allow this
    script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"

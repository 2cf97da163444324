"""The HTML of all pages: one set of templates, escaped by default, and scripts that only run if the page names them."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from delivery_verifier.pages import words
from delivery_verifier.pages.doubts import advice

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """The templates, with everything escaped that is not our own."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    made.filters.update(number=words.number, plain=words.plain, said=words.said, clean=words.clean)
    made.filters.update(headline=words.headline, latency=words.latency)
    made.globals.update(words=words, advice=advice)
    return made


def _finalize(value: object) -> object:
    """What an expression of the template prints: no control characters, and a dash for nothing."""
    if value is None:
        return "–"
    return value if isinstance(value, (Markup, int, float)) else words.clean(value)


@cache
def asset(name: str) -> str:
    """A file beside the templates, as text."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def source_of(script: str) -> str:
    """The script's source expression for the page's own content security policy: nothing else may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"

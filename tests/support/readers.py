"""What a person reads of a page, and in a terminal."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path

from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.reporting import terminal


def visible(text: str) -> str:
    """Returns the text of the page that a person reads, without scripts, styles and tags."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.S)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


def in_a_terminal(path: Path, verdict: RunVerdict) -> str:
    terminal.write(verdict, stream := io.StringIO(), runs=path.parent)
    return stream.getvalue()

"""Test of the wrapper on the page about audits: a send that the client refuses has a line, too."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs/audit.md"


class FullProducer:
    """A client whose queue is full."""

    def produce(self, *_: object, **__: object) -> None:
        raise BufferError("Local: Queue full")


def test_a_send_that_the_client_refuses_has_a_line_and_its_number() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    named: dict[str, Any] = {}
    exec(code, named)
    ledger = io.StringIO()
    for _ in range(2):
        with pytest.raises(BufferError):
            named["recorded"](FullProducer(), ledger, "orders", b"x")
    lines = [json.loads(line) for line in ledger.getvalue().splitlines()]
    assert [(line["outcome"], line["sequence"]) for line in lines] == [("failed", 0), ("failed", 1)]

"""The file in which a benchmark saves its table, and the line that describes the machine and the versions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

from delivery_verifier.host import machine


def target(kind: str) -> Path:
    """Returns the file for a table of `kind`: bench/results/KIND-TIME.md, with the present time. Makes the folder."""
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    return folder / f"{kind}-{datetime.datetime.now():%Y-%m-%dT%H%M}.md"


def circumstances(versions: Mapping[str, str]) -> str:
    """Returns the date, the machine and the versions, as one line."""
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{datetime.date.today()}; {machine.describe()}; {listed}"

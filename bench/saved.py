"""Where a bench saves its table, and on what it says that it was made."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping
from pathlib import Path


def target(kind: str) -> Path:
    """The file for a table of this `kind` begun now, bench/results/KIND-TIME.md. Makes the folder."""
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    return folder / f"{kind}-{datetime.datetime.now():%Y-%m-%dT%H%M}.md"


def machine(versions: Mapping[str, str]) -> str:
    """Date, machine and versions, as one line."""
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{datetime.date.today()}; {os.cpu_count()} CPUs, {platform.platform()}; {told}"

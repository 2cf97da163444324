"""What a benchmark leaves behind: a table, its figures as JSON, a plot, and a line on machine and versions."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from delivery_verifier.host import machine
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.planning.provenance import commit, versions_of

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
STATE = ROOT / "bench" / "results"
"""Where campaigns keep their state and drafts of tables. Git does not track this folder."""
Campaign = TypeVar("Campaign", bound=Any)
BAR, GAP, LEFT, WIDTH = 18, 8, 260, 640
"""Sizes of a plot, in pixels: the height of a bar, the gap between two bars, the width of the names, and the width of
the longest bar."""


def option_parser(description: str | None) -> argparse.ArgumentParser:
    """Returns the parser of a benchmark's options. Its help begins with `description`, the docstring of the module."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )


def target(kind: str) -> Path:
    """Returns the file for a table of `kind`: bench/results/KIND-TIME.md, with the present time. Makes the folder."""
    STATE.mkdir(exist_ok=True)
    return STATE / f"{kind}-{datetime.datetime.now():%Y-%m-%dT%H%M}.md"


def say(progress: StepProgress) -> None:
    """Prints a step of a run and its state, while a campaign goes on."""
    print(progress.step, progress.state, file=sys.stderr, flush=True)


def resumed(file: Path, kind: type[Campaign]) -> Campaign:
    """Returns the campaign that `keep` wrote to `file`. Returns one without rows if there is none, or if it was made at
    another commit. `kind` has the fields `commit` and `rows`. Makes the folder of `file`."""
    file.parent.mkdir(exist_ok=True)
    if file.exists():
        known = msgspec.json.decode(file.read_bytes(), type=kind)
        if known.commit == commit():
            return known
    return kind(commit=commit(), rows=[])


def keep(file: Path, campaign: Struct) -> None:
    """Writes a campaign to `file`, so that the same command goes on with it."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(campaign)))


def circumstances(versions: Mapping[str, str]) -> str:
    """Returns the date, the machine and the versions, as one line."""
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{datetime.date.today()}; {machine.describe()}; {listed}"


def publish(
    kind: str, title: str, rows: Sequence[Mapping[str, Any]], bars: Mapping[str, float], notes: Sequence[str] = ()
) -> Path:
    """Writes KIND-DATE.json, .md and .svg to docs/results. Returns the Markdown file.

    `rows` are the lines of the table, each with the same columns. `bars` are the bars of the plot, by name. `notes` are
    paragraphs for the page.
    """
    name = f"{kind}-{datetime.date.today()}"
    command = " ".join(["python", os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]])
    head = f"`{command}` at {commit()}; {circumstances(versions_of('4.3.1'))}; load average {os.getloadavg()[0]:.1f}."
    lines = [f"# {title}", "", head, "", *[part for note in notes for part in (note, "")], *table(rows), ""]
    lines.append(f"![{title}]({name}.svg)")
    figures = {"command": command, "circumstances": head, "rows": list(rows), "bars": dict(bars), "notes": list(notes)}
    (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n")
    (RESULTS / f"{name}.svg").write_text(plot(title, bars))
    page = RESULTS / f"{name}.md"
    page.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return page


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns `rows` as the lines of a Markdown table. The columns are the keys of the first row, in their order."""
    columns = list(rows[0])
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return [*head, *(f"| {' | '.join(_cell(row.get(column)) for column in columns)} |" for row in rows)]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def plot(title: str, bars: Mapping[str, float]) -> str:
    """Returns an SVG picture with one horizontal bar per entry of `bars`. The longest bar stands for the greatest
    value."""
    greatest, height = max(bars.values(), default=0) or 1, 40 + len(bars) * (BAR + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 100}" height="{height}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="white"/><text x="8" y="20" font-size="14">{escape(title)}</text>',
    ]
    for number, (name, value) in enumerate(bars.items()):
        top, length = 36 + number * (BAR + GAP), max(1, round(WIDTH * value / greatest))
        parts.append(f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{top}" width="{length}" height="{BAR}" fill="#3b6ea5"/>')
        parts.append(f'<text x="{LEFT + length + 6}" y="{top + 13}">{value:,.4g}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"

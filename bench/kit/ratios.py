"""The committed ratios, and the guard over them: a benchmark fails if a ratio is a fifth worse than the committed one.

docs/results/ratios.json holds for each ratio its value, whether higher or lower is better, and when it was measured. A
benchmark calls `guard` with its own ratios. With `--commit`, it replaces the committed ratios by its own.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypedDict

from bench.kit.saved import RESULTS

FILE = RESULTS / "ratios.json"
WORSE = 0.20
"""By how large a part a ratio may be worse than the committed one."""


class Committed(TypedDict):
    """A committed ratio: its value, whether `higher` or `lower` is better, and the date of its measurement."""

    ratio: float
    better: Literal["higher", "lower"]
    date: str


BETTER: dict[str, Literal["higher", "lower"]] = {
    "load / ProducerPerformance": "higher",
    "librdkafka / ProducerPerformance": "higher",
    "java / ProducerPerformance": "higher",
    "read / bare scan": "lower",
    "read / bare scan by default": "lower",
    "counts / bare Parquet scan": "lower",
    "counts / DuckDB": "lower",
    "end to end / kgo-verifier's way": "lower",
    "end to end / kafkatest's way": "lower",
    "warm end to end / kgo-verifier's way": "lower",
    "warm end to end / kafkatest's way": "lower",
}
"""For each ratio, whether a higher or a lower value is better. Loads are compared in records per second, all else in
seconds."""


def _better(name: str) -> Literal["higher", "lower"]:
    """Returns the entry of BETTER for the ratio `name`, which may be one of another size (see `by_size`)."""
    return BETTER[name.split(", ")[0]]


def is_worse(ratio: float, committed: Committed) -> bool:
    """Returns whether `ratio` is worse than the committed one by more than WORSE."""
    if committed["better"] == "higher":
        return ratio < committed["ratio"] * (1 - WORSE)
    return ratio > committed["ratio"] * (1 + WORSE)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the option `--commit` to a benchmark's options."""
    parser.add_argument(
        "--commit",
        action="store_true",
        help="make the ratios of this run the committed ones (docs/results/ratios.json)",
    )


def by_size(kind: str, ratios: Mapping[str, float], records: int, usual: int) -> tuple[str, dict[str, float]]:
    """Returns the name of a benchmark's page, and its ratios, for `records` records.

    Sizes other than `usual`, the default of the benchmark, have pages and committed ratios of their own.
    """
    if records == usual:
        return kind, dict(ratios)
    return f"{kind}-{records}", {f"{name}, {records} records": ratio for name, ratio in ratios.items()}


def guard(ratios: Mapping[str, float], commit: bool, file: Path = FILE) -> int:
    """Compares `ratios` with the committed ones, and prints each. Returns 1 if any is worse, 0 otherwise.

    With `commit`, writes `ratios` to `file` instead, and returns 0. A ratio that was never committed is not compared.
    """
    known: dict[str, Committed] = json.loads(file.read_text()) if file.exists() else {}
    if commit:
        date = datetime.date.today().isoformat()
        fresh = {name: Committed(ratio=ratio, better=_better(name), date=date) for name, ratio in ratios.items()}
        file.write_text(json.dumps(known | fresh, indent=1, sort_keys=True) + "\n")
        return 0
    worse = [name for name, ratio in ratios.items() if name in known and is_worse(ratio, known[name])]
    for name, ratio in ratios.items():
        was = f"committed {known[name]['ratio']} ({known[name]['date']})" if name in known else "not committed yet"
        print(f"{'WORSE ' if name in worse else ''}{name}: {ratio}; {was}; better is {_better(name)}", flush=True)
    return 1 if worse else 0

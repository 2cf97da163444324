"""Compares the run of `make verify` in this checkout with the same run in another checkout, in interleaved pairs.

`python bench/speed/versus_checkout.py CHECKOUT [--pairs 3] [--ways direct,airflow] [--records N]` needs a second
checkout of this project at the folder CHECKOUT, after `make setup` there. With --records, both make another run: N
records flat out, without a fault. A pair is one run in each checkout. Which of the two is first
changes from pair to pair. Way `direct` is `kdv run --direct`. Way `airflow` is `kdv run` through a local Airflow that
is up and has made one run before the first pair. Each checkout has its own Airflow. Both Airflows run until the last
pair has ended.

A row holds three times of both checkouts, in seconds, and their ratios (this checkout / the other):

* load's end to verdict: from the end of the step `produce` to the end of the step `conclude`.
* trigger to verdict: from the start of the command to the end of the step `conclude`.
* processor: of all processes of the run, brokers included. With an Airflow: what its processes used meanwhile, too.

The figures go to docs/results/versus-checkout-DATE.md, .json and .svg. The exit code is 1 if a run is not HELD.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.kit.kdv_run import FIXED, TAG, counted
from bench.kit.saved import option_parser, publish

HERE = Path(__file__).resolve().parents[2]
BY_DEFAULT = ("run", "--profile", "idempotent", "--fault", "kill_leader", "--records", "1000000")
WAYS = ("airflow", "direct")
PORTS = (18080, 18081)
"""The port of each checkout's Airflow."""
TIMES = ("load's end to verdict", "trigger to verdict", "processor")


class Step(msgspec.Struct):
    """The times of a step, as its manifest in the run directory holds them: µs since the epoch."""

    started_at_us: int
    finished_at_us: int


class Side:
    """One checkout. Its runs and its Airflow have a port and a folder of runs of their own."""

    def __init__(self, checkout: Path, port: int, runs: Path, command: Sequence[str]) -> None:
        self._kdv = str(checkout / ".venv" / "bin" / "kdv")
        self._runs, self._command = runs, command
        modules = os.pathsep.join((str(checkout / "plugins"), str(checkout)))
        own = {"KDV_PORT": str(port), "KDV_RUNS": str(runs), "PYTHONPATH": modules}
        self._environment = os.environ | own | {TAG: f"{os.getpid()}-{port}", "SPT_NOENV": "1"}
        self.commit = subprocess.check_output(["git", "-C", str(checkout), "rev-parse", "--short=8", "HEAD"], text=True)

    def call(self, *arguments: str) -> int:
        """Runs `kdv` with `arguments` in this checkout. Returns its exit code."""
        command = [self._kdv, *arguments]
        return subprocess.run(command, env=self._environment, stdout=subprocess.DEVNULL, check=False).returncode

    def measure(self, way: str) -> dict[str, float]:
        """Makes one run. Returns its three times in seconds, by their name in TIMES. Exits if the run is not HELD."""
        earlier = self._ended()
        begun_s = time.time()
        command = [self._kdv, *self._command, *(["--direct"] if way == "direct" else [])]
        code, costs = counted(command, self._environment)
        if code:
            raise SystemExit(f"{' '.join(command)} ended with exit code {code}, not with HELD")
        (last,) = self._ended() - earlier
        produce, conclude = (
            msgspec.json.decode((last.parent / f"{step}.json").read_bytes(), type=Step)
            for step in ("produce", "conclude")
        )
        ended_s = conclude.finished_at_us / 1e6
        times = (ended_s - produce.finished_at_us / 1e6, ended_s - begun_s, sum(cost.cpu_s for cost in costs))
        return dict(zip(TIMES, times, strict=True))

    def _ended(self) -> set[Path]:
        """Returns conclude.json of each run that has ended. The link `latest` is no run of its own."""
        return {file.resolve() for file in self._runs.glob("*/conclude.json")}


def main() -> int:
    """Measures the pairs of each way, publishes the figures, and returns 0."""
    parser = option_parser(__doc__)
    parser.add_argument("checkout", type=Path, help="the folder of the other checkout")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of {', '.join(WAYS)}")
    parser.add_argument("--records", type=int, help="so many records flat out without a fault, not the default run")
    arguments = parser.parse_args()
    command = BY_DEFAULT if arguments.records is None else ("run", *FIXED, "--records", str(arguments.records))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folders = (HERE, arguments.checkout.resolve())
        places = zip(folders, PORTS, strict=True)
        sides = [Side(folder, port, Path(name) / str(port), command) for folder, port in places]
        for way in arguments.ways.split(","):
            with _prepared(way, sides):
                rows += [_pair(way, sides, number) for number in range(arguments.pairs)]
    medians = {
        f"{way}, {each}": round(statistics.median(row[f"{each}, ratio"] for row in rows if row["way"] == way), 2)
        for way in arguments.ways.split(",")
        for each in TIMES
    }
    notes = [f"Median of the ratios, {name}: **{ratio}**." for name, ratio in medians.items()]
    notes.insert(0, f"This checkout: {sides[0].commit.strip()}. The other: {sides[1].commit.strip()}.")
    size = f"-{arguments.records}" if arguments.records else ""
    title = f"A run of {arguments.records:,} records" if arguments.records else "The default run"
    publish(f"versus-checkout{size}", f"{title} beside that of another version", rows, medians, notes)
    return 0


@contextmanager
def _prepared(way: str, sides: list[Side]) -> Iterator[None]:
    """For way `airflow`, starts the Airflow of each side, makes one run there, and stops the Airflow at the end."""
    if way == "direct":
        yield
        return
    try:
        for side in sides:
            if side.call("up"):
                raise SystemExit(
                    f"the Airflow of {side.commit.strip()} did not start; see the output of `kdv up` there"
                )
            side.measure(way)
        yield
    finally:
        for side in sides:
            side.call("down")


def _pair(way: str, sides: list[Side], number: int) -> dict[str, Any]:
    """Makes one run in each checkout. Returns the row with their times and ratios, and prints the row."""
    times: dict[int, dict[str, float]] = {}
    for which in (0, 1) if number % 2 == 0 else (1, 0):
        times[which] = sides[which].measure(way)
    row: dict[str, Any] = {"way": way, "pair": number + 1, "load average": round(os.getloadavg()[0], 1)}
    for each in TIMES:
        row[f"{each}, s"] = round(times[0][each], 1)
        row[f"{each}, other s"] = round(times[1][each], 1)
        row[f"{each}, ratio"] = round(times[0][each] / times[1][each], 3)
    print(row, flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())

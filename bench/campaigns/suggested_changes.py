"""The commands that reports print to try a change of settings, on real brokers: each must end HELD.

`python bench/campaigns/suggested_changes.py [--records N]`, or `make campaign PART=suggested_changes`. Runs every
command of COMMANDS and, after each, every command that its report prints under *What to change*: word by word, and
without Airflow (--direct). A run that ends INCONCLUSIVE is repeated once. The page
docs/results/suggested-changes-<date>.md is written anew after each run. The exit code is 1 if a suggested change did
not end HELD, or if a run has no verdict.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from bench.kit import saved
from delivery_verifier.cluster import lease
from delivery_verifier.command_line.stored import read_verdict
from delivery_verifier.host import folders
from delivery_verifier.model.scenario import ClusterSpec
from delivery_verifier.planning.provenance import commit, versions_of
from delivery_verifier.reporting.changes import PricedOption, priced_advices

_APPLIED = "kdv run --fault kill_application --application"
COMMANDS = (
    "kdv run --fault pause_leader --profile acks_1 --claim at_least_once",
    "kdv run --fault pause_leader --profile acks_0 --claim at_least_once",
    "kdv run --fault kill_leader --profile acks_all --claim at_most_once",
    "kdv run --fault elect_preferred --profile in_flight_1 --claim ordered",
    f"{_APPLIED} commit_first --claim at_least_once",
    f"{_APPLIED} commit_after --claim exactly_once",
    f"{_APPLIED} commit_after --claim at_most_once",
)
"""The commands of runs that ask for more than their settings promise. Chance decides whether a run of the first four is
VIOLATED. If it is HELD, its report says that the settings do not promise this, and prints the same commands."""
KDV = Path(sys.executable).with_name("kdv")


class Row(NamedTuple):
    """One run. `change`: the change that it tries; empty if it is a command of COMMANDS. `verdict`: the verdict of its
    subject; empty if there is none. `attempts`: how often it was run."""

    change: str
    command: str
    run: str
    verdict: str
    seconds: float
    attempts: int

    @property
    def is_good(self) -> bool:
        """Whether the run has a verdict and, if it tries a change, is HELD."""
        return self.verdict == "HELD" if self.change else self.verdict in ("HELD", "VIOLATED")


def main() -> int:
    """Runs all commands, and writes the page after every run. Returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit
    parser = saved.option_parser(__doc__)
    parser.add_argument("--records", type=int, default=2000)
    arguments = parser.parse_args()
    lease.require_free_host()
    target, rows = saved.RESULTS / f"suggested-changes-{date.today()}.md", list[Row]()
    for row in _rows([f"{command} --records {arguments.records}" for command in COMMANDS]):
        rows.append(row)
        target.write_text(report(rows))
        print(_line(row), flush=True)
    print(target.read_text())
    return 0 if rows and all(row.is_good for row in rows) else 1


def _rows(commands: Sequence[str]) -> Iterator[Row]:
    """Yields the runs of each command, and of the commands that its report prints."""
    for command in commands:
        broken = _run(command)
        yield broken
        for option in _options(broken) if broken.verdict else []:
            yield _run(option.command, option.change)


def _options(row: Row) -> list[PricedOption]:
    """Returns what the report of a run suggests, as far as it prints a command."""
    run_dir = folders.runs_dir() / row.run
    advices = priced_advices(read_verdict(run_dir).advice or [], run_dir.parent)
    suggested = [option for advice in advices for option in advice.options]
    return [option for option in suggested if option.command]


def _run(command: str, change: str = "") -> Row:
    """Runs a command as a user types it. Repeats it once if it ends INCONCLUSIVE."""
    row = _attempt(command, change)
    return _attempt(command, change)._replace(attempts=2) if row.verdict == "INCONCLUSIVE" else row


def _attempt(command: str, change: str) -> Row:
    run, begun = f"suggested-changes-{folders.new_run_id()}", time.monotonic()
    subprocess.run(
        [KDV, *shlex.split(command)[1:], "--direct", "--run-id", run], stdout=subprocess.DEVNULL, check=False
    )
    name, verdict = folders.run_directory_name(run), ""
    if (folders.runs_dir() / name / "verdict.json").is_file():
        subjects = [arm for arm in read_verdict(folders.runs_dir() / name).arms if arm.role == "subject"]
        verdict = subjects[0].verdict
    return Row(change, command, name, verdict, time.monotonic() - begun, 1)


def report(rows: Sequence[Row]) -> str:
    """Returns the page as Markdown."""
    tried = [row for row in rows if row.change]
    where = saved.circumstances(versions_of(ClusterSpec().kafka_version))
    held = f"{sum(row.is_good for row in tried)} of {len(tried)} suggested changes ended HELD"
    return "\n".join(
        [
            "# Alternatives",
            "",
            f"`make campaign PART=suggested_changes` at {commit()}; {where}.",
            "",
            f"{held}, each by the command that the report printed, under the same fault and claim.",
            "",
            "| change | command | verdict | attempts | s |",
            "|---|---|---|---|---|",
            *(_line(row) for row in rows),
            "",
        ]
    )


def _line(row: Row) -> str:
    change = row.change or "**as it is**"
    return f"| {change} | `{row.command}` | {row.verdict or 'none'} | {row.attempts} | {row.seconds:.0f} |"


if __name__ == "__main__":
    sys.exit(main())

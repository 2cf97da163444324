"""Everyday faults, counted: how many injections hurt each profile, with the confidence interval of Clopper and Pearson.

The confidence interval assumes that injections are independent of each other.

`python bench/campaigns/everyday_faults.py [--entries a,b] [--injections N] [--cycles C] [--from RUN...]`, part of `make
campaign`. Each entry is repeated until every arm has been through N injections. Each run has C cycles of the fault in
one load, and another seed. (A rolling restart is three injections: one per broker.) A Markdown table with machine and
versions goes to the terminal and to bench/results/everyday-faults-<date>.md. The exit code is 1 if a run was not as
expected. An arm with a doubt is not counted, whatever its verdict. The table says how many such arms there are. A case
that could belong to several injections counts for only one of them (see `delivery_verifier.verdict.attribution`).
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field

from msgspec.structs import replace

from bench.kit import saved
from delivery_verifier import catalogue
from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.command_line.stored import read_verdict, run_dir_of
from delivery_verifier.host import folders
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.pipeline import direct
from delivery_verifier.pipeline.local_spark import prepare_spark
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.verdict.attribution import OUTSIDE, confidence_interval

MOST_RUNS = 40
"""The greatest number of runs of one entry."""


@dataclass
class Tally:
    """The counts of one arm over all runs of one entry. `injections`: how often a fault was injected. `hurt`: how many
    of these injections hurt the arm."""

    injections: int = 0
    hurt: int = 0
    cases: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    longest_gap_s: float = 0.0

    def add(self, arm: ArmVerdict) -> None:
        """Adds the arm of another run. Raises ValueError if the run does not say which injections hurt the arm."""
        if arm.seen_in is None:
            raise ValueError(f"{arm.arm}: the run does not say which injections hurt it")
        self.injections += len({exposure.injection for exposure in arm.exposure})
        self.hurt += len({injection for ids in arm.seen_in.values() for injection in ids if injection != OUTSIDE})
        self.longest_gap_s = max(self.longest_gap_s, arm.longest_gap_s or 0.0)
        for name in ("reported", "lost", "duplicated", "reordered"):
            self.cases[name] += arm.tally.get(name, 0)


def main() -> int:
    """Runs the entries, and saves the tables after every run. With --from, reads runs and prints the tables.

    Returns the exit code.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that the cluster is ended
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--entries", default=",".join(name for name, entry in catalogue.ENTRIES.items() if "everyday" in entry.tags)
    )
    parser.add_argument("--injections", type=int, default=20)
    parser.add_argument("--cycles", type=int, default=7)
    parser.add_argument("--from", dest="runs", nargs="+", metavar="RUN", help="run nothing: count these runs")
    arguments = parser.parse_args()
    if arguments.runs:
        verdicts = [read_verdict(run_dir_of(name)) for name in arguments.runs]
        print(report(verdicts, RunDirectory(run_dir_of(arguments.runs[-1])).read_scenario().versions))
        return 0 if all(verdict.green for verdict in verdicts) else 1
    for name in arguments.entries.split(","):
        catalogue.SCENARIOS[name] = longer(catalogue.ENTRIES[name], arguments.cycles)
    return _run(arguments.entries.split(","), arguments.injections)


def longer(entry: Entry, cycles: int) -> Entry:
    """Returns the entry with `cycles` cycles of its fault, and with a load that lasts for all these cycles.

    More cycles in one run save time, because a run spends most of its time outside its fault.
    """
    more_s = entry.fault.duration_s * (cycles - entry.fault.cycles)
    if not entry.fault.steps or more_s <= 0:
        return entry
    load = replace(entry.load, duration_s=entry.load.duration_s + more_s, deadline_s=entry.load.deadline_s + 3 * more_s)
    records = entry.records + int(more_s * (entry.load.rate or 0))
    return replace(entry, fault=replace(entry.fault, cycles=cycles), load=load, records=records)


def _run(entries: list[str], injections: int) -> int:
    prepare_spark()
    from spark_jobs.session.classic import local_session

    target = saved.target("everyday-faults")
    verdicts: list[RunVerdict] = []
    with local_session() as spark:
        for entry in entries:
            for seed in range(MOST_RUNS):
                name = f"everyday-{time.strftime('%m%dT%H%M%S')}-{entry}"
                verdicts.append(direct.run({"scenario": entry, "seed": seed}, name, lambda *_: None, spark))
                versions = RunDirectory(folders.runs_dir() / name).read_scenario().versions
                target.write_text(report(verdicts, versions))
                print(verdicts[-1].sentence, flush=True)
                if _injections(verdicts, entry) >= injections or not catalogue.ENTRIES[entry].fault.steps:
                    break
    print(target.read_text())
    return 0 if all(verdict.green for verdict in verdicts) else 1


def _injections(verdicts: list[RunVerdict], entry: str) -> int:
    """Returns the least number of injections that any arm of `entry` has been through."""
    return min((tally.injections for tally in tallies(verdicts, entry).values()), default=0)


def tallies(verdicts: list[RunVerdict], entry: str) -> dict[str, Tally]:
    """Returns the tally of each arm, over the runs of `entry` in which the arm has no doubt."""
    by_arm: dict[str, Tally] = defaultdict(Tally)
    for verdict in verdicts:
        for arm in verdict.arms:
            if verdict.scenario == entry and arm.role != "canary" and not arm.doubts:
                by_arm[arm.arm].add(arm)
    return by_arm


def report(verdicts: list[RunVerdict], versions: dict[str, str]) -> str:
    """Returns the tables as Markdown."""
    lines = ["# Everyday faults, counted", "", saved.circumstances(versions), ""]
    for entry in dict.fromkeys(verdict.scenario for verdict in verdicts):
        runs = [verdict for verdict in verdicts if verdict.scenario == entry]
        doubted = sum(bool(arm.doubts) for verdict in runs for arm in verdict.arms)
        plural = "" if len(runs) == 1 else "s"
        done = f"{len(runs)} run{plural}, {sum(verdict.green for verdict in runs)} as expected"
        lines += [
            f"## {entry}",
            "",
            f"{done}; arms with a doubt, which are not counted: {doubted}.",
            "",
            "| arm | injections | hurt in | that may be (95 %) | lost | duplicated | out of order | of records "
            "reported | longest silence |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        lines += [_line(name, tally) for name, tally in tallies(verdicts, entry).items()] + [""]
    return "\n".join(lines)


def _line(name: str, tally: Tally) -> str:
    low, high = confidence_interval(tally.hurt, tally.injections) if tally.injections else (0.0, 1.0)
    may_be = f"{low:.0%} to {high:.0%}" if tally.injections else "–"
    cases = " | ".join(f"{tally.cases[kind]:,}" for kind in ("lost", "duplicated", "reordered", "reported"))
    return f"| {name} | {tally.injections} | {tally.hurt} | {may_be} | {cases} | {tally.longest_gap_s:.1f} s |"


if __name__ == "__main__":
    sys.exit(main())

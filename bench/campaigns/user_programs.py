"""Six programs that commit in six ways, with and without a kill, under two claims: 24 runs on real brokers.

`python bench/campaigns/user_programs.py [--cells ahead:kill_application:contract,...]`, or `make campaign
PART=user_programs`. The programs are those in bench/kit/sinks: one is right, and the others skip or repeat records.
Each run must have the verdict, the anomaly and the cause that EXPECTED names, and each kill must have found records in
progress. A run that is not as expected is repeated once, because chance decides where a kill falls; the page says so.
After Ctrl-C, or any other end, the same command at the same commit goes on where it ended. The page
docs/results/user-programs-<date>.md is written at the end. The exit code is 1 if a run was not as expected.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from bench.kit import saved
from delivery_verifier.cluster import lease
from delivery_verifier.host import folders
from delivery_verifier.model.history import read_injections
from delivery_verifier.model.scenario import ClusterSpec, VerdictName
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.pipeline import direct
from delivery_verifier.planning.provenance import commit, versions_of
from delivery_verifier.suite.directly import runner
from delivery_verifier.verdict.applications import EXPOSED_RECORDS

SINKS = saved.ROOT / "bench/kit/sinks"
STATE = saved.STATE / "user-programs.json"
FAULTS, CLAIMS = ("none", "kill_application"), ("contract", "exactly_once")
LOAD = {"records": 4000, "rate": 300, "partitions": 3}
ATTEMPTS = 2


class Expected(NamedTuple):
    """What a run of a program must end with. `anomaly`: what must be found; empty if nothing. `what`: a part of the
    sentence that says what the program did; empty if nothing is to be said. `otherwise`: another way in which it may
    end, where chance decides."""

    verdict: VerdictName
    anomaly: str = ""
    what: str = ""
    otherwise: Expected | None = None


HELD, LATE = Expected("HELD"), "had applied records, and not committed their offsets"
AHEAD = Expected("VIOLATED", "skipped", "committed offsets of records that it had not applied, and was killed")
GAP = Expected("VIOLATED", "skipped", "committed past records that it had not applied")
LEFT_OUT, SOME = Expected("VIOLATED", "skipped", "left records out"), "commits only some of the partitions"
EXPECTED: dict[str, tuple[Expected, Expected, Expected, Expected]] = {
    "honest": (HELD, HELD, Expected("HELD", "reapplied", LATE), Expected("VIOLATED", "reapplied", LATE)),
    "ahead": (HELD, HELD, AHEAD, AHEAD),
    "timer": (HELD, HELD, AHEAD, AHEAD),
    "gap": (HELD, HELD, GAP, GAP),
    "swallow": (LEFT_OUT, LEFT_OUT, LEFT_OUT, LEFT_OUT),
    # Without a kill, the end of the run stops the program: if a partition has not been committed by then, its group is
    # given those records again.
    "one_partition": (
        HELD._replace(otherwise=Expected("HELD", "reapplied", SOME)),
        HELD._replace(otherwise=Expected("VIOLATED", "reapplied", SOME)),
        Expected("HELD", "reapplied", SOME),
        Expected("VIOLATED", "reapplied", SOME),
    ),
}
"""What each program must end with: without and with a kill, each under the claims in the order of CLAIMS."""
CELLS = {
    f"{program}:{fault}:{claim}": EXPECTED[program][len(CLAIMS) * FAULTS.index(fault) + CLAIMS.index(claim)]
    for program in EXPECTED
    for fault in FAULTS
    for claim in CLAIMS
}


class Row(Struct, kw_only=True):
    """One run. `in_progress`: the records in progress at the kill; None without one. `causes`: what the program did,
    with the number of cases. `look_for`: the first thing to look for. `wrong`: what was not as expected; empty if
    nothing."""

    cell: str
    verdict: str
    exit_code: int
    skipped: int
    reapplied: int
    in_progress: int | None
    causes: list[str]
    look_for: str
    doubts: list[str]
    seconds: float
    attempts: int = 1
    wrong: str = ""


class Campaign(Struct):
    """The rows of a campaign that may not have ended yet, at one commit."""

    commit: str
    rows: list[Row]


def main() -> int:
    """Makes the runs that are still to be made, and writes the page. Returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that the cluster is ended
    parser = saved.option_parser(__doc__)
    parser.add_argument("--cells", default=",".join(CELLS))
    cells = parser.parse_args().cells.split(",")
    os.environ |= {"KDV_APPLICATIONS": str(SINKS), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    lease.require_free_host()
    campaign = saved.resumed(STATE, Campaign)
    with runner(saved.say) as direct_runner:
        for cell in cells:
            if cell in {row.cell for row in campaign.rows}:
                continue
            for attempt in range(1, ATTEMPTS + 1):
                row = _run(cell, direct_runner.session)
                row.attempts = attempt
                if not row.wrong:
                    break
            campaign.rows.append(row)
            saved.keep(STATE, campaign)
            print("\n".join(saved.table([_columns(row)])), flush=True)
    rows = [row for cell in cells for row in campaign.rows if row.cell == cell]
    target = saved.RESULTS / f"user-programs-{date.today()}{'' if cells == list(CELLS) else '-part'}.md"
    target.write_text(report(rows))
    print(target.read_text())
    return int(any(row.wrong for row in rows))


def _run(cell: str, session: direct.SparkProvider) -> Row:
    program, fault, claim = cell.split(":")
    name, begun_s = f"user-programs-{folders.new_run_id()}", time.monotonic()
    print(f"{cell}: {name}", file=sys.stderr, flush=True)
    fields = {"application": program, "fault": fault, "claim": claim, **LOAD}
    run_dir = direct.observe(fields, name, saved.say, session)
    verdict = direct.judge(run_dir, saved.say, session)
    row = _row(cell, verdict, run_dir, time.monotonic() - begun_s)
    row.wrong = "; ".join(_wrong(row, CELLS[cell], verdict))
    return row


def _row(cell: str, verdict: RunVerdict, run_dir: Path, seconds: float) -> Row:
    (arm,) = (arm for arm in verdict.arms if arm.role == "subject")
    return Row(
        cell=cell,
        verdict=arm.verdict,
        exit_code=verdict.exit_code,
        skipped=arm.tally["skipped"],
        reapplied=arm.tally["reapplied"],
        in_progress=_in_progress(run_dir, arm),
        causes=[f"{cause.count}: {cause.what}" for cause in arm.causes],
        look_for=arm.causes[0].look_for[0] if arm.causes else "",
        doubts=[f"{arm.arm}: {doubt.name}" for arm in verdict.arms for doubt in arm.doubts],
        seconds=round(seconds, 1),
    )


def _in_progress(run_dir: Path, arm: ArmVerdict) -> int | None:
    """Returns the records in progress that the proof of the kill names; None without a kill that is proven."""
    for injection in read_injections((run_dir / "injections.json").read_bytes()):
        proof = injection.proof["process_before_heal"]
        if injection.took_effect and isinstance(proof, dict):
            return int(proof.get(f"{EXPOSED_RECORDS[0]}{arm.arm}", 0))
    return None


def _wrong(row: Row, expected: Expected, verdict: RunVerdict) -> Iterator[str]:
    if expected.otherwise and (row.skipped or row.reapplied):
        yield from _wrong(row, expected.otherwise, verdict)
        return
    if row.verdict != expected.verdict:
        yield f"{row.verdict}, expected {expected.verdict}"
    if verdict.exit_code != (0 if expected.verdict == "HELD" else 1):
        yield f"exit code {verdict.exit_code}"
    if row.doubts:
        yield f"doubts: {', '.join(row.doubts)}"
    if "kill" in row.cell and not row.in_progress:
        yield "nothing in progress at the kill"
    counts = {"skipped": row.skipped, "reapplied": row.reapplied}
    if expected.anomaly and not counts[expected.anomaly]:
        yield f"none {expected.anomaly}"
    if not expected.anomaly and any(counts.values()):
        yield f"{counts}"
    if expected.what and not any(expected.what in cause for cause in row.causes):
        yield "another cause"


def report(rows: Sequence[Row]) -> str:
    """Returns the page as Markdown."""
    where = saved.circumstances(versions_of(ClusterSpec().kafka_version))
    right = sum(not row.wrong for row in rows)
    return "\n".join(
        [
            "# Six programs",
            "",
            f"`make campaign PART=user_programs` at {commit()}; {where}.",
            "",
            f"{right} of {len(rows)} runs ended as expected. Each has a load of {LOAD['records']:,} records or more at "
            f"{LOAD['rate']} records per second, on {LOAD['partitions']} partitions.",
            "",
            *saved.table([_columns(row) for row in rows]),
            "",
        ]
    )


def _columns(row: Row) -> dict[str, object]:
    program, fault, claim = row.cell.split(":")
    return {
        "program": program,
        "fault": fault,
        "claim": claim,
        "verdict": row.verdict,
        "exit code": row.exit_code,
        "skipped": row.skipped,
        "reapplied": row.reapplied,
        "in progress": row.in_progress,
        "what the program did": " ".join(row.causes),
        "look for": row.look_for,
        "attempts": row.attempts,
        "s": row.seconds,
        "not as expected": row.wrong,
    }


if __name__ == "__main__":
    sys.exit(main())

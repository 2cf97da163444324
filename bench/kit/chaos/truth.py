"""The truth about a run: compares the ledger with the log and counts again. Does not use Spark, the contract or Great
Expectations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delivery_verifier.model.steps import STEPS
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

EXIT_CODES = {0: "HELD", 1: "VIOLATED", 2: "INCONCLUSIVE"}
_KEY = ("producer", "session", "sequence", "attempt")


@dataclass(frozen=True)
class Recount:
    """The counts of the subject arm, computed from ledger and log alone."""

    acked: int
    lost: int
    extra_copies: int


def verdict_of(run: Path) -> RunVerdict | None:
    """Returns the verdict in the run directory, sealed or not; None if there is no verdict."""
    try:
        return msgspec.json.decode((run / "verdict.json").read_bytes(), type=RunVerdict)
    except FileNotFoundError:
        return None


def recount(run: Path, arm: str) -> Recount:
    """Counts the acknowledged attempts of `arm`, the acknowledged attempts without a copy in the log, and extra copies.

    Extra copies are the copies of an attempt beyond the first copy.
    """
    ledger = pq.read_table(run / "ledger", columns=["arm", "outcome", *_KEY])
    acked = ledger.filter((pc.field("arm") == arm) & (pc.field("outcome") == "ACKED"))
    log = pq.read_table(run / "log", columns=["arm", "view", "crc_ok", "foreign", *_KEY])
    own = (pc.field("arm") == arm) & (pc.field("view") == "raw") & pc.field("crc_ok") & ~pc.field("foreign")
    copies = Counter(map(tuple, zip(*(log.filter(own)[name].to_pylist() for name in _KEY), strict=True)))
    attempts = set(
        map(tuple, zip(*(ledger.filter(pc.field("arm") == arm)[name].to_pylist() for name in _KEY), strict=True))
    )
    acked_keys = set(map(tuple, zip(*(acked[name].to_pylist() for name in _KEY), strict=True)))
    extra = sum(count - 1 for key, count in copies.items() if key in attempts)
    return Recount(acked=len(acked_keys), lost=len(acked_keys - set(copies)), extra_copies=extra)


def falsehoods(
    run: Path, verdict: RunVerdict | None, exit_code: int, disturbed: bool
) -> tuple[list[str], Recount | None]:
    """Returns what is false in the verdict and the exit code, and the recount (None if a recount is impossible).

    `disturbed` says whether a broker or the controller was killed before the snapshot was taken.
    """
    if verdict is None:
        return ([f"exit code {exit_code} without a verdict"] if exit_code in EXIT_CODES else []), None
    subject = next(arm for arm in verdict.arms if arm.role == "subject")
    try:
        RunDirectory(run).require(*(step for step in STEPS if step != "stop_cluster"))
        truth = recount(run, subject.arm)
    except (IncompleteRun, OSError) as error:
        return [f"{verdict.verdict} on a run that is not whole: {error}"], None
    errors = (
        [] if EXIT_CODES.get(exit_code) in (None, verdict.verdict) else [f"exit code {exit_code} for {verdict.verdict}"]
    )
    return errors + _subject_falsehoods(subject, verdict, truth, disturbed), truth


def _subject_falsehoods(subject: ArmVerdict, verdict: RunVerdict, truth: Recount, disturbed: bool) -> list[str]:
    """Returns what is false about the subject arm in the counts and in the verdict. `truth`: the recount."""
    errors, counted = [], Recount(*(subject.tally.get(name, 0) for name in ("acked", "lost", "extra_copies")))
    if counted != truth:
        errors.append(f"the counts say {counted}, ledger and log {truth}")
    broken = truth.lost or (truth.extra_copies and subject.profile == "safe")
    if verdict.verdict == "HELD" and broken:
        errors.append(f"HELD although {truth}")
    if verdict.verdict == "HELD" and disturbed:
        errors.append("HELD although a node was killed that the plan does not name")
    if verdict.verdict == "VIOLATED" and (subject.profile == "safe" or not truth.lost):
        errors.append(f"VIOLATED although {truth}")
    return errors

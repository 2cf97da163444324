"""The judge: reads a verdict off the evidence, and withholds it wherever the evidence can be doubted.

Pure. Great Expectations found, the contract ruled; here both are put together, with suspicion: HELD and VIOLATED are
said only if everything that had to be evaluated was evaluated, over what it had to see, and agrees with the books.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from delivery_verifier.contract.rulings import Ruling
from delivery_verifier.judgement.checker_doubts import ALL, checker_doubts
from delivery_verifier.judgement.coverage_doubts import coverage_doubts
from delivery_verifier.judgement.evaluation import Validation, read_validation
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.judgement.sentences import arm_sentence, limits, run_sentence
from delivery_verifier.model.anomalies import SECONDARY, TRANSACTIONAL, Anomaly, also_column, column
from delivery_verifier.model.scenario import Arm, Bound, VerdictName, expected_text
from delivery_verifier.model.verdict import ArmVerdict, Doubt, Finding, RunVerdict
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory

WORST_FIRST: tuple[VerdictName, ...] = ("VIOLATED", "INCONCLUSIVE", "HELD")
"""A violation that was proven in one subject is not undone by a doubt about another."""


def load_and_judge(run_dir: Path) -> RunVerdict:
    """The verdict of a validated run. Raises IncompleteRun if a step before it did not finish: then there is none."""
    evidence = Evidence.load(run_dir)
    run = RunDirectory(run_dir)
    run.require("validate")
    try:
        validation = read_validation((run.path / "validation.json").read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError) as error:
        raise IncompleteRun(f"validation.json of {run.path} cannot be read: {error}") from None
    return judge(evidence, validation)


def judge(evidence: Evidence, validation: Validation) -> RunVerdict:
    """The verdict of every arm and of the run. Raises ValueError if an expectation names a count that nobody keeps."""
    doubts = checker_doubts(evidence, validation)
    arms = [
        _arm(evidence, arm, [doubt for owner, doubt in doubts if owner in (ALL, arm.name)])
        for arm in evidence.scenario.arms
    ]
    subjects = [arm for arm in arms if arm.role == "subject"]
    weak = [arm for arm in arms if arm.role == "control" and arm.books.get("lost") is not None]
    green = all(arm.as_expected and arm.verdict != "INCONCLUSIVE" for arm in arms)
    return RunVerdict(
        run_id=evidence.scenario.run_id,
        scenario=evidence.scenario.name,
        verdict=min((arm.verdict for arm in subjects), key=WORST_FIRST.index),
        green=green,
        sentence=run_sentence(evidence, subjects, weak),
        limits=limits(evidence),
        arms=arms,
        notes=_notes(evidence),
    )


def _arm(evidence: Evidence, arm: Arm, checker: list[Doubt]) -> ArmVerdict:
    findings = _canary_findings(evidence, arm) if arm.role == "canary" else _findings(evidence, arm)
    doubts = [*checker, *coverage_doubts(evidence, arm)]
    verdict = verdict_of(doubts, findings)
    books = evidence.books.totals(arm.name)
    return ArmVerdict(
        arm=arm.name,
        role=arm.role,
        profile=arm.profile.name,
        claim=arm.claim,
        verdict=verdict,
        as_expected=verdict in arm.expectation.verdicts and all(_meets(books, it) for it in arm.expectation.bounds),
        expected=expected_text(arm.expectation),
        sentence=arm_sentence(evidence, arm, verdict, doubts, findings),
        doubts=doubts,
        findings=findings,
        books=books,
        exposure=evidence.exposure(arm),
        longest_gap_s=_longest_gap_s(evidence, arm),
        bites=None if evidence.bites is None or arm.role == "canary" else evidence.bites.get(arm.name, {}),
    )


def verdict_of(doubts: Sequence[Doubt], findings: Sequence[Finding]) -> VerdictName:
    """Checker doubts forbid HELD and VIOLATED, coverage doubts only HELD."""
    if any(doubt.kind == "checker" for doubt in doubts):
        return "INCONCLUSIVE"
    if any(finding.tolerance is not None and finding.count + finding.also > finding.tolerance for finding in findings):
        return "VIOLATED"
    return "INCONCLUSIVE" if doubts else "HELD"


def _findings(evidence: Evidence, arm: Arm) -> list[Finding]:
    """One per anomaly. Without transactions no record can be a case of what only transactions can have."""
    found = [_finding(evidence, arm, ruling) for ruling in evidence.rulings(arm).values()]
    return [one for one in found if arm.transactional_id or one.count + one.also or one.anomaly not in TRANSACTIONAL]


def _finding(evidence: Evidence, arm: Arm, ruling: Ruling) -> Finding:
    count, also = evidence.books.cases(arm.name, ruling.anomaly)
    return Finding(
        anomaly=ruling.anomaly.value,
        ruling=ruling.ruling,
        ruled_by=ruling.ruled_by,
        rule=ruling.rule,
        sentence=ruling.sentence,
        source=ruling.source,
        tolerance=ruling.tolerance,
        count=count,
        also=also,
    )


def _canary_findings(evidence: Evidence, arm: Arm) -> list[Finding]:
    """What was planted: exactly so many, else `canary_wrong`. As tolerance, it is what a finding may reach."""
    found = []
    for anomaly in Anomaly:
        count, also = evidence.books.cases(arm.name, anomaly)
        planted = evidence.canary_expected.get(column(anomaly), 0)
        if anomaly in SECONDARY:
            planted += evidence.canary_expected.get(also_column(anomaly), 0)
        found.append(
            Finding(
                anomaly=anomaly.value,
                ruling="PERMITTED",
                ruled_by="contract",
                rule="canary.planted",
                sentence=f"{planted} were planted, and exactly these must be found.",
                source="delivery_verifier.judgement.canary",
                tolerance=planted,
                count=count,
                also=also,
            )
        )
    return found


def _meets(books: dict[str, int], bound: Bound) -> bool:
    name = bound.count.upper()
    if name in Anomaly.__members__:
        anomaly = Anomaly[name]
        value = books.get(column(anomaly), 0) + (books.get(also_column(anomaly), 0) if anomaly in SECONDARY else 0)
    elif bound.count.lower() in books:
        value = books[bound.count.lower()]
    else:
        raise ValueError(f"expectation: {bound.count!r} is no anomaly and no column of the books: {sorted(books)}")
    return {"=": value == bound.value, ">=": value >= bound.value, "<=": value <= bound.value}[bound.op]


def _longest_gap_s(evidence: Evidence, arm: Arm) -> float | None:
    return max(map(float, evidence.books.values("gaps", "longest_gap_s", arm=arm.name)), default=None)


def _notes(evidence: Evidence) -> list[str]:
    rows = evidence.books.rows("cases")
    if not {"arm", "kind", "cases", "written", "cut"} <= set(rows.column_names):
        return []
    return [
        f"{row['arm']}: {row['written']:,} of {row['cases']:,} cases of {row['kind']} were written down with their "
        "evidence; all were counted"
        for row in rows.to_pylist()
        if row["cut"]
    ]

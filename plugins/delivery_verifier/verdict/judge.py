"""The judge: derives the verdict from the evidence, and withholds the verdict if the evidence can be doubted.

The contract rules which anomalies are permitted, and Great Expectations evaluates the counts against these rulings. The
judge says HELD or VIOLATED only if two conditions hold. Great Expectations evaluated every required expectation on all
required rows. Each result agrees with the judge's own reading of the counts. `judge` is a pure function.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from delivery_verifier.contract.rules import LATE as LATE_PROMISE
from delivery_verifier.contract.rules import unexplained
from delivery_verifier.contract.rulings import Ruling
from delivery_verifier.model.anomalies import EFFECTS, TRANSACTIONAL, Anomaly
from delivery_verifier.model.scenario import Bound, VerdictName
from delivery_verifier.model.verdict import (
    WORST_FIRST,
    ArmVerdict,
    CheckedInvariant,
    Doubt,
    Finding,
    RunVerdict,
    expected_text,
)
from delivery_verifier.run_directory.counts import LATE, UNPROVEN, case_counts
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.verdict.causes import causes
from delivery_verifier.verdict.checker_doubts import ALL, checker_doubts
from delivery_verifier.verdict.coverage_doubts import coverage_doubts
from delivery_verifier.verdict.evaluation import INVARIANTS, Validation, read_validation
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence
from delivery_verifier.verdict.explained_by import ExplainedCases, explained_cases_of
from delivery_verifier.verdict.given_up import given_up_of
from delivery_verifier.verdict.limits import limits
from delivery_verifier.verdict.notes import notes
from delivery_verifier.verdict.sentences import arm_sentence, run_sentence
from delivery_verifier.verdict.which_client import which_client


def load_and_judge(run_dir: Path) -> RunVerdict:
    """Returns the verdict of the run in `run_dir`, without its advice. Raises as `load` does."""
    return judge(*load(run_dir))


def load(run_dir: Path) -> tuple[Evidence, Validation]:
    """Returns the evidence of the run in `run_dir`, and the results of Great Expectations.

    Raises IncompleteRun if there can be no verdict, because

    * the step `validate` or an earlier step did not finish
    * a file of these steps is missing or damaged.
    """
    evidence = Evidence.load(run_dir)
    run = RunDirectory(run_dir)
    run.require("validate")
    try:
        validation = read_validation((run.path / "validation.json").read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError) as error:
        raise IncompleteRun(f"validation.json of {run.path} cannot be read: {error}") from None
    return evidence, validation


def judge(evidence: Evidence, validation: Validation) -> RunVerdict:
    """Returns the verdict of the run, with the verdict of every arm.

    `validation` holds the results of Great Expectations. Raises ValueError if a bound in the scenario names neither an
    anomaly nor a column of the counts.
    """
    doubts = checker_doubts(evidence, validation)
    arms = [_judge_arm(arm, [doubt for owner, doubt in doubts if owner in (ALL, arm.name)]) for arm in evidence.arms]
    subjects = [arm for arm in arms if arm.role == "subject"]
    controls = [arm for arm in arms if arm.role == "control" and arm.tally.get("lost") is not None]
    green = all(arm.as_expected and arm.verdict != "INCONCLUSIVE" for arm in arms)
    return RunVerdict(
        run_id=evidence.scenario.run_id,
        scenario=evidence.scenario.name,
        verdict=min((arm.verdict for arm in subjects), key=WORST_FIRST.index),
        green=green,
        sentence=run_sentence(evidence, subjects, controls),
        limits=limits(evidence),
        arms=arms,
        notes=notes(evidence),
        invariants=_invariants(validation),
        repeat=evidence.scenario.command,
        which_client=which_client(evidence, arms),
    )


def _invariants(validation: Validation) -> list[CheckedInvariant]:
    return [
        CheckedInvariant(
            invariant=checked.about,
            meaning=INVARIANTS.get(checked.about, ""),
            rows=checked.expected_rows,
            broken=checked.count,
            holds=checked.success,
            exception=checked.exception,
        )
        for checked in validation.evaluated
        if checked.suite == "evidence"
    ]


def _judge_arm(arm: ArmEvidence, known: list[Doubt]) -> ArmVerdict:
    """Returns the verdict of one arm. `known` are all doubts about the arm, except the coverage doubts, which this
    function adds."""
    spec = arm.spec
    findings = _canary_findings(arm) if arm.is_canary else _findings(arm)
    doubts = [*known, *coverage_doubts(arm), *_not_shown(arm)]
    verdict = verdict_of(doubts, findings)
    is_doubted = arm.is_canary or any(doubt.kind == "checker" for doubt in doubts)  # then no count can be trusted
    given_up = None if is_doubted else given_up_of(arm)
    expectation = spec.expectation
    as_expected = verdict in expectation.verdicts and all(_meets(arm.totals, bound) for bound in expectation.bounds)
    return ArmVerdict(
        arm=arm.name,
        role=spec.role,
        profile=spec.profile.name,
        claim=spec.claim,
        verdict=verdict,
        as_expected=as_expected,
        expected=expected_text(expectation),
        sentence=arm_sentence(arm, verdict, doubts, findings, given_up),
        doubts=doubts,
        findings=findings,
        tally=arm.totals,
        exposure=arm.exposure,
        longest_gap_s=_longest_gap_s(arm),
        seen_in=arm.cases_by_injection,
        given_up=given_up,
        causes=[] if any(doubt.kind == "checker" for doubt in doubts) else causes(arm),
        client="" if arm.run.scenario.audit else spec.versioned_client.words,
    )


def _not_shown(arm: ArmEvidence) -> list[Doubt]:
    """Returns a coverage doubt if the arm does not show what it is expected to show, and chance has a part in that."""
    expectation, cycles = arm.spec.expectation, arm.run.scenario.fault.cycles
    if not expectation.by_chance or all(_meets(arm.totals, bound) for bound in expectation.bounds):
        return []
    detail = (
        f"{arm.name} was expected to show {expected_text(expectation)}, which chance decides, and did not in {cycles} "
        f"cycle{'' if cycles == 1 else 's'} of faults"
    )
    return [Doubt(kind="coverage", name="did_not_show", detail=detail)]


def verdict_of(doubts: Sequence[Doubt], findings: Sequence[Finding]) -> VerdictName:
    """Returns the verdict that follows from doubts and findings. The first of these rules that applies decides:

    1. There is a checker doubt: INCONCLUSIVE.
    2. A finding has more records than its tolerance allows: VIOLATED.
    3. There is a coverage doubt: INCONCLUSIVE.
    4. None of these is true: HELD.
    """
    if any(doubt.kind == "checker" for doubt in doubts):
        return "INCONCLUSIVE"
    if any(finding.broken for finding in findings):
        return "VIOLATED"
    return "INCONCLUSIVE" if doubts else "HELD"


def _findings(arm: ArmEvidence) -> list[Finding]:
    """Returns one finding for each anomaly for which the run was searched. If an anomaly has unexplained cases, these
    get a second finding.

    Two kinds of anomalies are left out if the tables of counts have none of them: anomalies of transactions if the arm
    writes no transactions (an audit has other names for them), and anomalies of effects if the arm has no application.
    """
    has_transactions = arm.spec.transactional_id and arm.run.scenario.audit is None
    absent = (() if has_transactions else TRANSACTIONAL) + (() if arm.spec.application else EFFECTS)
    explained_by = explained_cases_of(arm)
    findings = [part for ruling in arm.rulings.values() for part in _split(_finding(arm, ruling), explained_by)]
    return [finding for finding in findings if finding.cases or finding.anomaly not in absent]


def _split(finding: Finding, explained_by: ExplainedCases) -> list[Finding]:
    """Adds the explains to the finding, and moves its unexplained cases (see Explains) to a second finding, which
    forbids them. Returns one finding if there are no unexplained cases, else both. Great Expectations counts the
    unexplained cases, too (see `verdict.unexplained`)."""
    anomaly = Anomaly(finding.anomaly)
    count, also = min(explained_by.cases[anomaly], finding.count), min(explained_by.hidden[anomaly], finding.also)
    permitted = replace(
        finding,
        count=finding.count - count,
        also=finding.also - also,
        explained_by=explained_by.explained.get(anomaly, []),
        doubtful=explained_by.doubtful[anomaly] + explained_by.unseen[anomaly],
        unexplained=explained_by.doubtful_records.get(anomaly, []),
    )
    if not count + also:
        return [permitted]
    promise = unexplained(anomaly)
    ruled = {"ruling": "FORBIDDEN", "rule": promise.id, "sentence": promise.sentence, "source": promise.source}
    named = explained_by.records[anomaly]
    return [permitted, replace(finding, **ruled, tolerance=0, count=count, also=also, unexplained=named)]


def _finding(arm: ArmEvidence, ruling: Ruling) -> Finding:
    count, also = arm.cases(ruling.anomaly)
    finding = Finding(
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
    if ruling.anomaly is Anomaly.REORDERED and LATE in arm.totals:
        late = LATE_PROMISE
        return replace(finding, rule=late.id, sentence=late.sentence, source=late.source)
    return finding


def _canary_findings(arm: ArmEvidence) -> list[Finding]:
    """Returns one finding for each anomaly for which the run was searched. Its `tolerance` is the number of planted
    cases.

    If the tables of counts have more or fewer cases, `checker_doubts` raises the doubt `canary_wrong`.
    """
    findings = []
    for anomaly in arm.run.searched:
        count, also = arm.cases(anomaly)
        planted = sum(case_counts(arm.run.canary_expected, anomaly))
        findings.append(
            Finding(
                anomaly=anomaly.value,
                ruling="PERMITTED",
                ruled_by="contract",
                rule="canary.planted",
                sentence=f"{planted} were planted, and exactly these must be found.",
                source="delivery_verifier.canary",
                tolerance=planted,
                count=count,
                also=also,
            )
        )
    return findings


def _meets(totals: dict[str, int], bound: Bound) -> bool:
    """Returns whether the arm's counts (`totals`) meet a bound that the scenario expects.

    `bound.count` is the name of an anomaly or of a column of the counts. Raises ValueError if it is neither. If nobody
    knows whether some records are lost (UNPROVEN), the bound on LOST must be met with and without these records.
    """
    name = bound.count.upper()
    if name in Anomaly.__members__:
        value = sum(case_counts(totals, Anomaly[name]))
    elif bound.count.lower() in totals:
        value = totals[bound.count.lower()]
    else:
        raise ValueError(f"expectation: {bound.count!r} is no anomaly and no column of the counts: {sorted(totals)}")
    most = value + totals.get(UNPROVEN, 0) if name == Anomaly.LOST else value
    return {"=": value == most == bound.value, ">=": value >= bound.value, "<=": most <= bound.value}[bound.op]


def _longest_gap_s(arm: ArmEvidence) -> float | None:
    """Returns the longest time (s) between two consecutive reports for one partition of the arm. None: unknown."""
    gaps_s = arm.run.tally.values("gaps", "longest_gap_s", arm=arm.name)
    return max((float(gap_s) for gap_s in gaps_s), default=None)

"""Runs made by hand whose subject has an application, and what is wrong with its effects."""

from __future__ import annotations

import msgspec

from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.application import Discipline
from delivery_verifier.model.scenario import Claim, Scenario
from delivery_verifier.verdict.applications import application_doubts
from delivery_verifier.verdict.evidence import Evidence
from support.applications import EFFECTS, PRODUCERS, application
from support.evidence import SUBJECT, Change, Rows, a_scenario, evidence_of, setting, with_arm


def applied_by(discipline: Discipline, claim: Claim = "contract", reset: str = "earliest") -> Scenario:
    consumer = application(discipline).consumer | {"auto.offset.reset": reset}
    program = msgspec.structs.replace(application(discipline), consumer=consumer)
    return with_arm(a_scenario(fault="none"), SUBJECT, application=program, claim=claim)


def counted(kind: Anomaly, count: int) -> Change:
    """Returns a change that makes `count` records of the subject cases of `kind`, and keeps the counts in balance."""

    def change(rows: Rows) -> None:
        setting(PRODUCERS, column(kind), count, arm=SUBJECT, producer=0, partition=0)(rows)
        if kind is Anomaly.SKIPPED:
            setting(EFFECTS, "applied", 400 - count, arm=SUBJECT, partition=0)(rows)

    return change


def run_of(discipline: Discipline, change: Change = lambda rows: None, arm: str = SUBJECT) -> Evidence:
    """Returns the evidence of a run in which `arm` alone has an application, with `change` to its counts."""
    plain = a_scenario(fault="none")
    return evidence_of(with_arm(plain, arm, application=application(discipline)), change)


def doubts_of(run: Evidence, name: str = SUBJECT) -> dict[str, str]:
    """Returns the details of the doubts about the application of an arm, by the doubt's name."""
    return dict(application_doubts(next(arm for arm in run.arms if arm.name == name)))

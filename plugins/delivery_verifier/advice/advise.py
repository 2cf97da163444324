"""Completes a verdict: adds the advice, an explained case of each anomaly, and a description of each program under
test."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from delivery_verifier.advice.changes import advices
from delivery_verifier.advice.explanations import examples_of
from delivery_verifier.catalogue.applications import application_lines
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence


def advise(evidence: Evidence, verdict: RunVerdict, run_dir: Path) -> RunVerdict:
    """Returns the verdict of a run with its advice. No field changes that the judge has filled in. `run_dir`: the run
    directory, from which effects and journals of single records are read.

    Raises OSError or pyarrow.ArrowException if they cannot be read.
    """
    known = {arm.name: arm for arm in evidence.arms}
    arms = [_advised(known[judged.arm], judged, run_dir) for judged in verdict.arms]
    advice = advices(evidence.scenario, evidence.injections, evidence.observations, verdict)
    return replace(verdict, arms=arms, advice=advice)


def _advised(arm: ArmEvidence, judged: ArmVerdict, run_dir: Path) -> ArmVerdict:
    return replace(judged, application=application_lines(arm.spec.application), examples=examples_of(arm, run_dir))

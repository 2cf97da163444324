"""A verdict in blocks: what report, terminal, note, mail and log say of it, each in its own form.

The blocks are made from verdict.json alone. Only the prices of changes come from other runs of this host.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.reporting.arm_rows import ArmRow, arm_rows
from delivery_verifier.reporting.causes import ReportedCause, causes_of
from delivery_verifier.reporting.changes import PricedAdvice, priced_advices
from delivery_verifier.reporting.doubts import DoubtGroup, doubt_groups
from delivery_verifier.reporting.words import number, plain_name, without_verdict

LIMITS_SHOWN = 2
"""How many limits stand in `Blocks.limits`. These are the last limits of the verdict, which say what one run cannot
prove."""
UNKNOWN = "Not known: the notes of the verdict say why."


class Blocks(Struct, frozen=True):
    """The blocks of a verdict, in the order in which all faces show them. All are empty if a run was not judged.

    * `sentence`: the sentence of the verdict, without the name of the verdict, and without what was given up.
    * `given_up`: for each subject that gave up records, the name of the arm, the sentence on that, and sentences on
      what to change.
    * `arms`: the rows of the table of arms, subjects first. `canary`: the row of the canary, which a report leaves out.
    * `doubts`: why a verdict is withheld.
    * `which_client`: sentences on what several clients with the same settings show: whose each anomaly is.
    * `claims`: in an audit, sentences that name the first claims of each anomaly that convicts.
    * `unadvised`: why there is no advice. `advices`: what to change, by arm. `causes`: what the programs of subjects
      did. The name of an arm stands before what is said of it only if there are several subjects.
    * `further`: sentences on what the run covered, and on its evidence. `limits`: what it does not show.
    * `repeat`: the command that repeats the run.
    """

    sentence: str = ""
    given_up: list[tuple[str, str, list[str]]] = []
    arms: list[ArmRow] = []
    canary: list[ArmRow] = []
    doubts: list[DoubtGroup] = []
    which_client: list[str] = []
    claims: list[str] = []
    unadvised: str = ""
    advices: list[PricedAdvice] = []
    causes: list[ReportedCause] = []
    further: list[str] = []
    limits: list[str] = []
    repeat: str = ""


def blocks_of(verdict: RunVerdict | None, runs: Path | None = None) -> Blocks:
    """Returns the blocks of a verdict; None: the run was not judged. `runs`: the folder with the price runs of this
    host; None: no price is known."""
    if verdict is None:
        return Blocks()
    subjects = [arm for arm in verdict.arms if arm.role == "subject"]
    names = {arm.arm: arm.arm if len(subjects) > 1 else "" for arm in subjects}
    rows = arm_rows(verdict.arms)
    return Blocks(
        sentence=without_verdict(_without_given_up(verdict), verdict.verdict),
        given_up=[(names[arm.arm], arm.given_up.sentence, arm.given_up.changes) for arm in subjects if arm.given_up],
        arms=[row for row in rows if row.arm.role != "canary"],
        canary=[row for row in rows if row.arm.role == "canary"],
        doubts=doubt_groups(verdict),
        which_client=[each.sentence for each in verdict.which_client],
        claims=[sentence for arm in subjects for sentence in _claims(arm)],
        unadvised=UNKNOWN if verdict.advice is None else "",
        advices=priced_advices(verdict.advice or [], runs),
        causes=[each for arm in subjects for each in causes_of(arm, names[arm.arm])],
        further=[*verdict.limits[:-LIMITS_SHOWN], *verdict.notes],
        limits=verdict.limits[-LIMITS_SHOWN:],
        repeat=verdict.repeat,
    )


def _claims(arm: ArmVerdict) -> Iterator[str]:
    broken = {finding.anomaly: finding.cases for finding in arm.findings if finding.broken}
    for example in arm.examples:
        if example.claims and example.anomaly in broken:
            more = broken[example.anomaly] - len(example.claims)
            rest = f"; and {number(more)} more, in anomalies/ and claims/" if more > 0 else ""
            yield f"{plain_name(example.anomaly)}: {', '.join(example.claims)}{rest}."


def _without_given_up(verdict: RunVerdict) -> str:
    sentence = verdict.sentence
    for arm in verdict.arms:
        if arm.given_up:
            sentence = sentence.replace(arm.given_up.in_a_sentence, "", 1)
    return sentence

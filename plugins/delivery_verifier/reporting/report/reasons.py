"""The reasons for the verdicts of the subjects.

If a subject has more cases of an anomaly than tolerated, the reason names this anomaly and its cases. Otherwise the
reason names each anomaly of which one case would have been enough for VIOLATED.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from delivery_verifier.model.anomalies import KINDS, Anomaly, subset
from delivery_verifier.model.figures import enumeration
from delivery_verifier.model.verdict import ArmVerdict, Finding, RunVerdict
from delivery_verifier.reporting.words import number, record_that_is
from delivery_verifier.run_directory.counts import LATE

PROMISES_SHOWN = 2
"""The greatest number of sentences of rules that explain the verdict of an arm."""
EXPLAINED = subset("readers ask for these first; the table of promises has all", (Anomaly.LOST, Anomaly.DUPLICATED))
"""The anomalies whose promises explain why an arm HELD."""


@dataclass(frozen=True)
class Reason:
    """The reason for the verdict of one or more subjects. The page shows `short` in bold. It shows `lead` and `text`
    beside the promises.

    `text` says which anomalies would have led to VIOLATED, and which are permitted. `promises`: the sentences of the
    rules that explain the verdict. In a VIOLATED arm, these are the rules that were broken. In an arm that HELD, these
    are the promises about losses and copies.
    """

    lead: str
    text: str
    short: str = ""
    promises: tuple[str, ...] = ()


def reasons(verdict: RunVerdict | None) -> list[Reason]:
    """Returns the reasons of all subjects with findings, in the order of the verdict.

    If subjects have equal reasons, they share one Reason. Returns an empty list if `verdict` is None.
    """
    subjects = [arm for arm in (verdict.arms if verdict else []) if arm.role == "subject" and arm.findings]
    owners: dict[tuple[str, str, str, tuple[str, ...]], list[str]] = {}
    for arm in subjects:
        owners.setdefault((*_reason(arm), _short(arm), _promises(arm)), []).append(arm.arm)
    return [
        Reason(_with_names(arms, lead, owners), text, _with_names(arms, short, owners), promises)
        for (lead, text, short, promises), arms in owners.items()
    ]


def _with_names(arms: list[str], text: str, owners: Collection[object]) -> str:
    """Returns `text`. If there are several reasons, the names of `arms` stand before the text. `owners` has one entry
    for each reason."""
    return text if len(owners) == 1 or not text else f"{enumeration(arms, 'and')}: {text[:1].lower()}{text[1:]}"


def _short(arm: ArmVerdict) -> str:
    """Returns the reason in one sentence. The sentence is empty if the verdict has no other reason than doubts."""
    if any(finding.broken for finding in arm.findings):
        return _reason(arm)[0]
    if arm.verdict != "HELD":
        return ""
    if any(finding.cases for finding in arm.findings):
        return "It held: what was found is permitted with these settings."
    return "It held: nothing was found that must not happen."


def _promises(arm: ArmVerdict) -> tuple[str, ...]:
    """Returns the sentences of the rules that explain the verdict of an arm, each sentence once. There are at most
    PROMISES_SHOWN."""
    broken = [finding for finding in arm.findings if finding.broken]
    permitted = [finding for finding in arm.findings if finding.tolerance is None and finding.cases]
    promised = [finding for finding in arm.findings if finding.tolerance == 0 and finding.anomaly in EXPLAINED]
    return tuple(dict.fromkeys(finding.sentence for finding in broken or permitted or promised))[:PROMISES_SHOWN]


def _reason(arm: ArmVerdict) -> tuple[str, str]:
    if broken := [_counted(arm, finding) for finding in arm.findings if finding.broken]:
        lead = "Violated because" if arm.verdict == "VIOLATED" else "The doubts withhold a verdict, although"
        return f"{lead} {enumeration(broken, 'and')}.", _permitted(arm)
    convicting = [_convicting_case(finding) for finding in arm.findings if finding.tolerance is not None]
    if not convicting:
        return "Nothing could have led to VIOLATED: the settings permit everything.", _permitted(arm)
    doubted = any(doubt.kind == "checker" for doubt in arm.doubts)
    lead = "One single record would have led to VIOLATED"
    lead = f"If the check were beyond doubt, {lead[:1].lower()}{lead[1:]}:" if doubted else f"{lead}:"
    return lead, f"one that is {enumeration(convicting)}. {_permitted(arm)}".strip()


def _counted(arm: ArmVerdict, finding: Finding) -> str:
    count, beyond = finding.cases, f" (tolerated: {number(finding.tolerance)})" if finding.tolerance else ""
    beyond += _beside(arm, finding)
    if count == 1:
        return f"1 record is {record_that_is(finding.anomaly)}{beyond}"
    if finding.anomaly not in Anomaly.__members__:
        return f"{number(count)} records are {finding.anomaly}{beyond}"
    kind, reported = KINDS[Anomaly(finding.anomaly)], ""
    late = arm.tally.get(LATE, 0) if finding.anomaly == Anomaly.REORDERED else 0
    if kind.share_of in ("reported", "acked") and not late:
        reported = "sent " if arm.tally.get("sent") else "acknowledged "
    unknown = f" (of {number(late)} the client never learned the outcome)" if late else ""
    return f"{number(count)} {reported}records are {kind.records_that_are}{unknown}{beyond}"


def _beside(arm: ArmVerdict, finding: Finding) -> str:
    """Returns a clause on further cases of the anomaly of `finding`: cases that the contract permits because of
    disturbances.

    `finding` itself counts the cases that no disturbance explains. Returns an empty text if the contract does not
    permit the anomaly because of disturbances.
    """
    permitted = [other for other in arm.findings if other.anomaly == finding.anomaly and other.tolerance is None]
    others = sum(other.cases for other in permitted)
    if not permitted:
        return ""
    if not others:
        return ", which no disturbance explains"
    explained = sum(other.explained for other in permitted)
    known = "" if explained == others else f", though a disturbance surely explains only {number(explained)}"
    return f", which no disturbance explains ({number(others)} more {'is' if others == 1 else 'are'} permitted{known})"


def _convicting_case(finding: Finding) -> str:
    beyond = f" (more than {number(finding.tolerance)})" if finding.tolerance else ""
    return record_that_is(finding.anomaly) + beyond


def _permitted(arm: ArmVerdict) -> str:
    """Returns the sentence on the anomalies that are permitted in any number, or an empty text if there is no such
    anomaly.

    An anomaly is left out if some of its cases are not permitted.
    """
    broken = {finding.anomaly for finding in arm.findings if finding.broken}
    permitted = [
        record_that_is(finding.anomaly)
        for finding in arm.findings
        if finding.tolerance is None and finding.anomaly not in broken
    ]
    if not permitted:
        return ""
    return f"Not held against it, because it may happen with these settings: a record that is {enumeration(permitted)}."

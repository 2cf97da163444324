"""What the settings under test gave up, for pages and texts: records that were neither acknowledged nor written."""

from __future__ import annotations

from collections.abc import Iterable

from delivery_verifier.model.verdict import ArmVerdict, RunVerdict

HEADING = "given up"
"""The heading of the column that counts them. A table has this column only if an arm gave up something."""


def is_given_up(arms: Iterable[ArmVerdict]) -> bool:
    """Returns whether one of the arms gave up something, so that a table has a column for it."""
    return any(arm.given_up for arm in arms)


def count_of(arm: ArmVerdict) -> int:
    """Returns how many attempts the arm gave up."""
    return arm.given_up.attempts if arm.given_up else 0


def by_subject(verdict: RunVerdict | None) -> list[tuple[str, str, list[str]]]:
    """Returns what each subject gave up: the name of the arm, the sentence, and the sentences on what to change. The
    name is an empty text if there is one subject only."""
    subjects = [arm for arm in (verdict.arms if verdict else []) if arm.role == "subject"]
    return [
        (arm.arm if len(subjects) > 1 else "", arm.given_up.sentence, arm.given_up.changes)
        for arm in subjects
        if arm.given_up
    ]


def without_given_up(verdict: RunVerdict) -> str:
    """Returns the sentence of the verdict without what was given up. The report shows that in a paragraph of its
    own."""
    sentence = verdict.sentence
    for arm in verdict.arms:
        if arm.given_up:
            sentence = sentence.replace(arm.given_up.in_a_sentence, "", 1)
    return sentence

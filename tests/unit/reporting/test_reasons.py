"""The reason for a verdict names what was counted, and nothing that was not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.applications import applied
from support.evidence import RUN, SUBJECT, a_scenario, arm, both, evidence_of, judged, lost, setting

from delivery_verifier.model.anomalies import EFFECTS, KINDS, Anomaly, column
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.reporting.report.reasons import reasons
from delivery_verifier.reporting.words import latency
from delivery_verifier.verdict.evidence import Evidence


def whole(verdict: RunVerdict) -> str:
    """All reasons of a verdict, as one text."""
    return " ".join(f"{reason.lead} {reason.text}".strip() for reason in reasons(verdict))


def counted(kind: Anomaly, count: int) -> Evidence:
    """The hand-made run, in which the subject shows `count` cases of `kind`. Kinds of effects need an application."""
    run = applied(RUN) if kind in EFFECTS else RUN
    return evidence_of(run, setting("counts/producers.parquet", column(kind), count, arm=SUBJECT, producer=0))


def test_a_violated_run_names_its_number_and_no_other_kind() -> None:
    text = whole(judged(evidence_of(RUN, lost(3))))
    assert text.startswith("Violated because 3 acknowledged records are missing from the log.")
    assert "damaged" not in text and "never sent" not in text and "would have" not in text


def test_one_record_is_told_of_in_the_singular_and_two_kinds_together() -> None:
    assert "because 1 record is reported as delivered and missing" in whole(judged(evidence_of(RUN, lost(1))))
    change = both(lost(2), setting("counts/producers.parquet", "reordered", 1, arm=SUBJECT, producer=0))
    text = whole(judged(evidence_of(RUN, change)))
    assert text.startswith(
        "Violated because 2 acknowledged records are missing from the log and 1 record is in the log behind a "
        "record that was sent after it."
    )


def test_a_held_run_says_what_would_have_been_a_violation() -> None:
    text = whole(judged(evidence_of(RUN)))
    assert text.startswith("One single record would have led to VIOLATED: one that is damaged, ")
    assert "because" not in text.partition(". ")[0]


def test_a_run_that_may_lose_everything_is_not_said_to_fear_a_loss() -> None:
    text = whole(judged(evidence_of(a_scenario("acks_0"))))
    convicting, _, permitted = text.partition("Not held against it")
    assert KINDS[Anomaly.LOST].record_that_is not in convicting and KINDS[Anomaly.LOST].record_that_is in permitted


@pytest.mark.parametrize("kind", list(Anomaly))
@pytest.mark.parametrize("count", [1, 2, 3246])
def test_every_kind_that_convicts_is_the_reason(kind: Anomaly, count: int) -> None:
    verdict = judged(counted(kind, count))
    finding = next(finding for finding in arm(verdict).findings if finding.anomaly == kind)
    broken = finding.tolerance is not None and finding.count + finding.also > finding.tolerance
    words = f" is {KINDS[kind].record_that_is}" if count == 1 else f" are {KINDS[kind].records_that_are}"
    assert (f"{count:,} " in whole(verdict) and words in whole(verdict)) == broken
    if broken and arm(verdict).verdict == "VIOLATED":
        assert whole(verdict).startswith("Violated because ") and f"{count:,} " in whole(verdict)
    elif broken:
        assert whole(verdict).startswith("The doubts withhold a verdict, although ")


def test_subjects_with_different_reasons_are_named() -> None:
    verdict = judged(evidence_of(RUN, lost(3)))
    subject = arm(verdict)
    other = msgspec.structs.replace(
        subject, arm="another", verdict="HELD", findings=[_without_cases(finding) for finding in subject.findings]
    )
    first, second = reasons(msgspec.structs.replace(verdict, arms=[*verdict.arms, other]))
    assert first.lead == f"{SUBJECT}: violated because 3 acknowledged records are missing from the log."
    assert second.lead == "another: one single record would have led to VIOLATED:"
    assert reasons(None) == []


def _without_cases(finding: Any) -> Any:
    return msgspec.structs.replace(finding, count=0, also=0)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0.0, "0 ms"),
        (0.00001, "0 ms"),
        (0.0123, "0.0123 ms"),
        (12.64, "12.6 ms"),
        (999.4, "999 ms"),
        (999.7, "1 s"),
        (1000, "1 s"),
        (3160.0, "3.16 s"),
        (99_960.0, "100 s"),
        (999_700.0, "1,000 s"),
        (1_234_567.0, "1,235 s"),
    ],
)
def test_a_latency_has_plain_digits(ms: float, text: str) -> None:
    assert latency(ms) == text

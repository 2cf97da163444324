"""Terminal and report name the disturbance that explains each permitted case, or say that the case is unexplained."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from support.evidence import (
    ABOVE,
    CUT,
    EFFECT_AT,
    LAST,
    SECOND,
    a_scenario,
    arm,
    case,
    cases,
    evidence_of,
    judged,
    lost,
    setting,
)

from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.verdict import RECORDS_NAMED, ExplainedBy, Finding, RunVerdict
from delivery_verifier.reporting import terminal
from delivery_verifier.reporting.explained_by import GROUPS_SHOWN, explained_lines, explanation_of_case
from delivery_verifier.run_directory.cases import record_name
from delivery_verifier.run_directory.times import as_us
from delivery_verifier.verdict.evidence import Evidence

RUN, NAME = a_scenario("acks_1"), "acks_1"
CHANGED = EFFECT_AT + 3 * SECOND


def seconds(at_us: int) -> str:
    return f"{at_us / SECOND:g} s"


def judged_with(*times: tuple[int, int | None], count: int | None = None, **more: Any) -> tuple[RunVerdict, Evidence]:
    evidence = evidence_of(
        RUN,
        lost(count or len(times), NAME),
        cases=cases(*(case(sent_us, settled_us, "LOST", arm=NAME, **more) for sent_us, settled_us in times)),
    )
    return judged(evidence), evidence


def of_loss(verdict: RunVerdict) -> Finding:
    return next(it for it in arm(verdict, NAME).findings if it.anomaly == "LOST")


def explanation(at_us: int, at: int, count: int, **more: Any) -> ExplainedBy:
    fields: dict[str, Any] = {"kind": "leader_change", "planned": True, "brokers": [2], "topic": "t", **more}
    disturbance = Disturbance(at_us=at_us, partitions=[at], **fields)
    return ExplainedBy(disturbance=disturbance, since_us=None, until_us=None, count=count)


def with_explained_by(*explained_by: ExplainedBy, count: int, doubtful: int = 0) -> Finding:
    verdict, _ = judged_with((EFFECT_AT, EFFECT_AT))
    return msgspec.structs.replace(of_loss(verdict), explained_by=list(explained_by), count=count, doubtful=doubtful)


def test_the_verdict_names_the_disturbance_its_partition_and_its_time() -> None:
    verdict, _ = judged_with((EFFECT_AT, EFFECT_AT + 1), (EFFECT_AT, None), (LAST, LAST), count=5)
    assert explained_lines(of_loss(verdict), seconds) == [
        "1 by leader_change of partition 0 at 103 s (broker 2)",
        "1 unexplained: no disturbance surely explains them",
        "2 not written down one by one: what explains them is not known",
    ]
    again = msgspec.json.decode(msgspec.json.encode(verdict), type=RunVerdict)
    assert again == verdict


def test_the_terminal_says_it_with_the_time_of_day() -> None:
    stream = io.StringIO()
    terminal.write(judged_with((EFFECT_AT, EFFECT_AT + 1))[0], stream)
    assert "acks_1: 1 LOST permitted\n  1 by leader_change of partition 0 at 00:01:43.000 UTC (broker 2)\n" in (
        stream.getvalue()
    )


def test_disturbances_of_one_kind_within_a_second_of_each_other_share_a_line() -> None:
    together = explanation(SECOND, 0, 7), explanation(2 * SECOND, 4, 1_000, brokers=[3])
    finding = with_explained_by(*together, explanation(9 * SECOND, 0, 2, planned=False), count=1_009)
    assert explained_lines(finding, seconds) == [
        "1,007 by leader_change of partitions 0 and 4 from 1 s to 2 s (brokers 2 and 3)",
        "2 by leader_change of partition 0 at 9 s (broker 2, not planned)",
    ]


def test_many_disturbances_are_summed_up() -> None:
    finding = with_explained_by(*(explanation(10 * at * SECOND, at, 100 - at) for at in range(1, 50)), count=3675)
    lines = explained_lines(finding, seconds)
    assert len(lines) == GROUPS_SHOWN + 1
    assert lines[0] == "99 by leader_change of partition 1 at 10 s (broker 2)"
    assert lines[-1].endswith(" by 44 further disturbances, named in verdict.json")


@pytest.mark.parametrize(
    ("times", "offset", "texts"),
    [
        ([(EFFECT_AT, EFFECT_AT + 1)], ABOVE, ["leader_change of partition 0 at 103 s (broker 2)"]),
        ([(EFFECT_AT, None)], ABOVE, ["unexplained"]),
        ([(LAST, LAST)], ABOVE, ["unexplained"]),
        (
            [(EFFECT_AT, EFFECT_AT), (LAST, LAST)],
            ABOVE,
            ["leader_change of partition 0 at 103 s (broker 2)", "unexplained"],
        ),
        ([(EFFECT_AT, EFFECT_AT + 1)], CUT - 1, ["unexplained"]),
    ],
)
def test_each_case_names_its_disturbance_as_the_verdict_counted_it(times: Any, offset: int, texts: list[str]) -> None:
    verdict, evidence = judged_with(*times, acked_offset=offset)
    assert texts_of(verdict, evidence) == texts
    assert sum(it.explained for it in arm(verdict, NAME).findings) == sum(text != "unexplained" for text in texts)


def texts_of(verdict: RunVerdict, evidence: Evidence) -> list[str]:
    """Returns the text of each case of the run, as the page shows it."""
    table = evidence.cases
    assert table is not None
    rows = pa.table({name: as_us(table[name]) for name in table.column_names}).to_pylist()
    arms = {judged_arm.arm: judged_arm for judged_arm in verdict.arms}
    return [explanation_of_case(arms.get(row["arm"]), row, seconds) for row in rows]


@pytest.mark.parametrize(("before_us", "text"), [(None, "–"), (EFFECT_AT - SECOND, "unexplained")])
def test_a_copy_that_no_retry_can_have_written_is_unexplained(before_us: int | None, text: str) -> None:
    rows = [case(EFFECT_AT, EFFECT_AT + 1, "DUPLICATED", arm=NAME, appended_before=at) for at in (None, before_us)]
    change = setting("counts/producers.parquet", "duplicated", 2, arm=NAME, producer=0)
    evidence = evidence_of(RUN, change, cases=cases(*rows))
    verdict = judged(evidence)
    assert texts_of(verdict, evidence) == ["–", text]
    assert arm(verdict, NAME).verdict == ("HELD" if before_us is None else "VIOLATED")


def test_a_case_that_needs_no_disturbance_has_a_dash() -> None:
    weak = a_scenario("acks_0")
    rows = cases(case(EFFECT_AT, EFFECT_AT, "LOST", arm="acks_0"))
    evidence = evidence_of(weak, lost(1, "acks_0"), cases=rows)
    verdict = judged(evidence)
    assert texts_of(verdict, evidence) == ["–"]
    assert texts_of(msgspec.structs.replace(verdict, arms=[]), evidence) == ["–"]
    assert explained_lines(of_anything(verdict), seconds) == []


def of_anything(verdict: RunVerdict) -> Finding:
    return next(it for it in arm(verdict, "acks_0").findings if it.anomaly == "LOST")


def test_records_are_named_in_the_order_of_cases_up_to_a_bound_and_all_are_counted() -> None:
    count = RECORDS_NAMED + 2
    rows = [case(EFFECT_AT, EFFECT_AT + 1, "LOST", arm=NAME, sequence=count - at, session=1) for at in range(count)]
    rows += [case(LAST, LAST, "LOST", arm=NAME, sequence=count + 9, session=1)]
    evidence = evidence_of(RUN, lost(count + 1, NAME), cases=cases(*rows))
    permitted, forbidden = (it for it in arm(judged(evidence), NAME).findings if it.anomaly == "LOST")
    (explained,) = permitted.explained_by
    assert (explained.count, len(explained.records)) == (count, RECORDS_NAMED)
    assert explained.records[:2] == ["0/1/1/0", "0/1/2/0"] and permitted.unexplained == []
    assert forbidden.broken and forbidden.unexplained == [f"0/1/{count + 9}/0"]


def test_a_record_that_nobody_sent_is_named_by_its_place() -> None:
    assert record_name({"sequence": None, "partition": 2, "offsets": [7, 9]}) == "@2/7"
    assert record_name({"sequence": None, "partition": 2, "offsets": None}) == "@2/"

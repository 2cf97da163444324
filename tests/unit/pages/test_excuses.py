"""Terminal and report name the disturbance that excuses each permitted case, or say that the case is unexplained."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from support.evidence import BITE, LAST, SECOND, a_scenario, arm, case, cases, evidence_of, judged, lost

from delivery_verifier.judgement.attribution import read_cases
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.verdict import ArmVerdict, Excuse, Finding, RunVerdict
from delivery_verifier.pages import terminal
from delivery_verifier.pages.excuses import GROUPS_SHOWN, excuse_lines, excuse_of_row

RUN, NAME = a_scenario("acks_1"), "acks_1"
CHANGED = BITE + 3 * SECOND


def seconds(at_us: int) -> str:
    return f"{at_us / SECOND:g} s"


def judged_with(*times: tuple[int, int | None], count: int | None = None) -> tuple[RunVerdict, Any]:
    evidence = evidence_of(
        RUN,
        lost(count or len(times), NAME),
        cases=cases(*(case(sent_us, settled_us, "LOST", arm=NAME) for sent_us, settled_us in times)),
    )
    return judged(evidence), evidence.cases


def of_loss(verdict: RunVerdict) -> Finding:
    return next(it for it in arm(verdict, NAME).findings if it.anomaly == "LOST")


def excuse(at_us: int, at: int, count: int, **more: Any) -> Excuse:
    fields: dict[str, Any] = {"kind": "leader_change", "planned": True, "brokers": [2], "topic": "t", **more}
    disturbance = Disturbance(at_us=at_us, partitions=[at], **fields)
    return Excuse(disturbance=disturbance, since_us=None, until_us=None, count=count)


def with_excuses(*excuses: Excuse, count: int, doubtful: int = 0) -> Finding:
    verdict, _ = judged_with((BITE, BITE))
    return msgspec.structs.replace(of_loss(verdict), excuses=list(excuses), count=count, doubtful=doubtful)


def test_the_verdict_names_the_disturbance_its_partition_and_its_time() -> None:
    verdict, _ = judged_with((BITE, BITE + 1), (BITE, None), (LAST, LAST), count=5)
    assert excuse_lines(of_loss(verdict), seconds) == [
        "1 by leader_change of partition 0 at 103 s (broker 2)",
        "1 unexplained: no disturbance surely excuses them",
        "2 not written down one by one: what excuses them is not known",
    ]
    again = msgspec.json.decode(msgspec.json.encode(verdict), type=RunVerdict)
    assert again == verdict


def test_the_terminal_says_it_with_the_time_of_day() -> None:
    stream = io.StringIO()
    terminal.write(judged_with((BITE, BITE + 1))[0], stream)
    assert "acks_1: 1 LOST permitted\n  1 by leader_change of partition 0 at 00:01:43.000 UTC (broker 2)\n" in (
        stream.getvalue()
    )


def test_disturbances_of_one_kind_within_a_second_of_each_other_share_a_line() -> None:
    together = excuse(SECOND, 0, 7), excuse(2 * SECOND, 4, 1_000, brokers=[3])
    finding = with_excuses(*together, excuse(9 * SECOND, 0, 2, planned=False), count=1_009)
    assert excuse_lines(finding, seconds) == [
        "1,007 by leader_change of partitions 0 and 4 from 1 s to 2 s (brokers 2 and 3)",
        "2 by leader_change of partition 0 at 9 s (broker 2, not planned)",
    ]


def test_many_disturbances_are_summed_up() -> None:
    finding = with_excuses(*(excuse(10 * at * SECOND, at, 100 - at) for at in range(1, 50)), count=3675)
    lines = excuse_lines(finding, seconds)
    assert len(lines) == GROUPS_SHOWN + 1
    assert lines[0] == "99 by leader_change of partition 1 at 10 s (broker 2)"
    assert lines[-1].endswith(" by 44 further disturbances, named in verdict.json")


@pytest.mark.parametrize(
    ("times", "texts"),
    [
        ([(BITE, BITE + 1)], ["leader_change of partition 0 at 103 s (broker 2)"]),
        ([(BITE, None)], ["unexplained"]),
        ([(LAST, LAST)], ["unexplained"]),
        ([(BITE, BITE), (LAST, LAST)], ["leader_change of partition 0 at 103 s (broker 2)", "unexplained"]),
    ],
)
def test_each_case_names_its_disturbance_as_the_verdict_counted_it(times: Any, texts: list[str]) -> None:
    verdict, table = judged_with(*times)
    assert [text_of(arm(verdict, NAME), row) for row in read_cases(table)] == texts
    assert of_loss(verdict).excused == sum(text != "unexplained" for text in texts)


def text_of(judged_arm: ArmVerdict | None, row: Any) -> str:
    columns = {"arm": row.arm, "kind": row.kinds[0], "producer": row.producer, "partition": row.partition}
    return excuse_of_row(judged_arm, {**columns, "sent_at": row.sent_us, "settled_at": row.settled_us}, seconds)


def test_a_case_that_needs_no_disturbance_has_a_dash() -> None:
    weak = a_scenario("acks_0")
    rows = cases(case(BITE, BITE, "LOST", arm="acks_0"))
    verdict = judged(evidence_of(weak, lost(1, "acks_0"), cases=rows))
    (row,) = read_cases(rows)
    assert text_of(arm(verdict, "acks_0"), row) == "–"
    assert text_of(None, row) == "–"
    assert excuse_lines(of_anything(verdict), seconds) == []


def of_anything(verdict: RunVerdict) -> Finding:
    return next(it for it in arm(verdict, "acks_0").findings if it.anomaly == "LOST")

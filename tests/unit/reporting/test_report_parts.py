"""Tests of parts of the report: time series, history, wording, and the verdict in a terminal."""

from __future__ import annotations

import io
import json
import re
from itertools import pairwise
from pathlib import Path

import msgspec
import pandas as pd
import pytest
from support import report_material

from delivery_verifier.advice.doubts import ADVICE, BY_KIND, advice
from delivery_verifier.model.figures import share
from delivery_verifier.model.history import Injection, Observation, injection_during
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.reporting import material, terminal
from delivery_verifier.reporting.charts.lanes import SEGMENTS_DRAWN, partition_counts, segments
from delivery_verifier.reporting.charts.series import POINTS, series
from delivery_verifier.reporting.leadership import Clock, Leadership
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.report.events import events
from delivery_verifier.reporting.report.proofs import proof_of
from delivery_verifier.reporting.words import clean, headline
from delivery_verifier.run_directory import tables
from delivery_verifier.verdict import (
    applications,
    audits,
    checker_doubts,
    coverage_doubts,
    damage,
    explained_by,
    exposure_doubts,
    external,
    group_log,
    held_back,
    judge,
    observer_doubts,
    ordered,
    outputs,
    replicas,
    shared_offsets,
    unproven,
)

S = 1_000_000


def load(arm: str, rows: list[tuple[int, int]], interval_us: int = 200_000) -> pd.DataFrame:
    """Returns a timeline of an arm. `rows` are pairs of an interval's number and the number of records reported in this
    interval."""
    return pd.DataFrame(
        [
            {
                "arm": arm,
                "at_us": place * interval_us,
                "sent": count,
                "reported": count,
                "indeterminate": 1,
                "failed": 0,
                "latency_ms_p50": 2.0,
                "latency_ms_p99": float(count),
            }
            for place, count in rows
        ]
    )


def test_an_interval_without_a_row_is_zero_and_not_bridged() -> None:
    one = series(load("a", [(0, 10), (1, 10), (3, 10)]), Clock(0, True), ["a"])[0]
    assert one.reported.tolist() == [50, 50, 0, 50]
    assert one.errors.tolist() == [5, 5, 0, 5]
    assert pd.isna(one.p99).tolist() == [False, False, True, False]


def test_a_long_run_is_thinned_without_losing_a_record_or_a_peak() -> None:
    rows = [(place, 900 if place == 4321 else 10) for place in range(10_000)]
    one = series(load("a", rows), Clock(0, True), ["a"])[0]
    assert len(one.x) <= POINTS
    assert float(one.reported.sum()) * one.interval_s == pytest.approx(10 * 10_000 + 890, rel=1e-4)
    assert float(one.p99.max()) == 900


def seen(at_us: int, leader: int) -> Observation:
    return Observation(at_us=at_us, kind="partition", topic="t", partition=0, leader=leader, isr=[leader])


def test_the_leader_at_a_moment_is_the_last_one_seen_before_it() -> None:
    leadership = Leadership([seen(10, 1), seen(20, 2)])
    found = [leadership.last_observation("t", 0, at) for at in (9, 10, 19, 20, 99)]
    assert [one and one.leader for one in found] == [None, 1, 1, 2, 2]
    assert leadership.last_observation("t", 0, None) is None
    assert leadership.last_observation("other", 0, 50) is None
    assert [one.at_us for one in leadership.changes("t")] == [20]


def test_the_last_leader_is_the_one_seen_last_whatever_the_clock_says() -> None:
    set_back = Leadership([seen(10, 1), seen(30, 2), seen(20, 3)])
    assert [at.leader for at in set_back.observations("t", 0)] == [1, 2, 3]
    assert [set_back.last_observation("t", 0, at).leader for at in (15, 25, 35)] == [1, 3, 3]  # type: ignore[union-attr]


def test_a_record_belongs_to_the_injection_whose_window_it_touches() -> None:
    made = Injection(
        id=7,
        cycle=1,
        action="kill",
        brokers=[1],
        hit={},
        requested_at_us=0,
        effect_at_us=10 * S,
        recovered_at_us=20 * S,
    )
    assert injection_during([made], 8 * S, 9 * S - 1) is None
    assert injection_during([made], 8 * S, 9 * S) is made
    assert injection_during([made], 20 * S, 21 * S) is made
    assert injection_during([made], 20 * S + 1, 21 * S) is None
    assert injection_during([made], 1, None) is made
    assert injection_during([made], None, None) is None


def test_a_share_never_rounds_something_to_nothing() -> None:
    assert share(1, 10_000_000) == "< 0.01 %"
    assert share(9_999_999, 10_000_000) == "> 99.99 %"
    assert (share(9_997, 10_000), share(999, 1_000)) == ("99.97 %", "99.9 %")
    assert share(0, 10) == "0 %"
    assert share(10, 10) == "100 %"
    assert share(1, 0) == ""


DOUBTERS = (
    applications,
    audits,
    checker_doubts,
    coverage_doubts,
    damage,
    explained_by,
    external,
    held_back,
    judge,
    observer_doubts,
    ordered,
    outputs,
    replicas,
    shared_offsets,
    exposure_doubts,
    unproven,
    group_log,
)


def test_every_doubt_that_the_judge_can_raise_has_its_own_advice() -> None:
    sources = [Path(module.__file__ or "").read_text() for module in DOUBTERS]
    named = {name for name in ADVICE if any(f'"{name}' in source for source in sources)}
    assert set(ADVICE) - named <= {"table_missing"}  # raised by the counts
    assert set(checker_doubts.INVARIANT_DOUBTS.values()) <= set(ADVICE)
    assert advice("checker", "counts_unbalanced:log_sum") == ADVICE["counts_unbalanced"]
    assert advice("coverage", "something new") == BY_KIND["coverage"]


def test_control_and_direction_characters_are_made_visible() -> None:
    assert clean("a\x1b[31mb\u202ec\x00d\ud800") == "a�[31mb�c�d�"
    assert clean("tab\tline\nä ✔") == "tab\tline\nä ✔"


def test_a_headline_is_the_first_clause_and_nothing_is_left_out() -> None:
    assert headline("Of 3.4 records, 1 lost; the leader was killed. None of 5.") == (
        "Of 3.4 records, 1 lost.",
        "The leader was killed. None of 5.",
    )
    assert headline("No verdict.") == ("No verdict.", "")


def test_leaders_that_move_together_are_reported_in_one_line() -> None:
    moved = [Observation(at_us=S, kind="partition", topic="t", partition=p, leader=1, isr=[1]) for p in range(90)]
    moved += [
        Observation(at_us=3 * S + p, kind="partition", topic="t", partition=p, leader=2, leader_epoch=1, isr=[2])
        for p in range(90)
    ]
    material = Material(Path(), None, observations=moved)
    told = [event.text for event in events(material, Clock(0, True))]
    assert told == ["partitions 0, 1, 2, 3, 4 and 85 more are now led by broker 2 (epoch 1)"]


def test_a_lane_is_thinned_without_losing_the_time_without_a_leader() -> None:
    rows = [(at, -1 if at == 5_001 else 1) for at in range(0, 10_001)]
    flapping = [
        Observation(at_us=at * S, kind="partition", topic="t", partition=0, leader=leader, isr=[1] * (at % 2 + 1))
        for at, leader in rows
    ]
    found = segments(Material(Path(), None, observations=flapping), Clock(0, True), 10_000.0)
    assert len(found) <= SEGMENTS_DRAWN + 1
    assert [one for one in found if one.observation.leader < 0]
    assert all(now.end == after.start for now, after in pairwise(found))


def test_a_broker_whose_process_has_ended_leads_no_lane_although_nobody_says_so() -> None:
    """While all brokers are away, the observer hears nothing: the leader of before stood there for 20 s."""

    def seen(at: int, leader: int) -> Observation:
        return Observation(at_us=at * S, kind="partition", topic="t", partition=0, leader=leader, isr=[1, 2])

    def process(at: int, broker: int, state: str) -> Observation:
        return Observation(at_us=at * S, kind="process", broker=broker, state=state)

    away = [seen(0, 1), process(6, 1, "exited"), process(7, 2, "exited"), process(14, 1, "running"), seen(29, 2)]
    material = Material(Path(), None, observations=[*away, process(33, 2, "exited")])
    lane = segments(material, Clock(0, True), 40.0)
    assert [(one.start, one.end, one.observation.leader) for one in lane] == [(0, 6, 1), (6, 29, -1), (29, 40, 2)]


def test_partitions_without_a_leader_or_a_full_isr_are_counted_over_time() -> None:
    def seen(at: int, partition: int, leader: int, isr: list[int]) -> Observation:
        return Observation(at_us=at * S, kind="partition", topic="t", partition=partition, leader=leader, isr=isr)

    moves = [
        seen(0, 0, 1, [1, 2]),
        seen(0, 1, 2, [1, 2]),
        seen(5, 0, -1, [2]),
        seen(6, 1, 2, [2]),
        seen(7, 0, 2, [1, 2]),
    ]
    found = partition_counts(Material(Path(), None, observations=moves), Clock(0, True))
    assert [(one.from_s, one.leaderless, one.shrunk) for one in found] == [(0, 0, 0), (5, 1, 1), (6, 1, 2), (7, 0, 1)]


def printed(verdict: RunVerdict) -> str:
    to = io.StringIO()
    terminal.write(verdict, to)
    return to.getvalue()


def test_the_terminal_shows_verdict_figures_and_doubts(tmp_path: Path) -> None:
    told = printed(report_material.inconclusive(tmp_path)[1])
    assert told.startswith("INCONCLUSIVE (NOT as expected)\n")
    assert "checker doubt, safe, control-acks_0: counts_unbalanced:reported_sum" in told
    assert told.count("What to do:") == 2
    row = next(line for line in told.splitlines() if line.startswith("| safe "))
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "safe",
        "subject",
        "41,300",
        "41,210",
        "0",
        "0",
        "0",
        "48",
        "6,120",
        "3.4 s",
        "INCONCLUSIVE",
        "HELD (not met)",
    ]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_terminal_of_any_width_is_never_written_beyond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    to = Terminal()
    verdict = report_material.violated(tmp_path)[1]
    arms = [*verdict.arms, *(msgspec.structs.replace(verdict.arms[0], arm=f"arm-{number}") for number in range(9))]
    terminal.write(msgspec.structs.replace(verdict, arms=arms), to)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", to.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    assert "exposed" in to.getvalue()
    assert all(f"arm-{number}" in to.getvalue() for number in range(9))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_figure_that_the_verdict_lacks_is_a_dash_and_no_zero(tmp_path: Path) -> None:
    told = printed(report_material.held(tmp_path)[1])
    row = next(line for line in told.splitlines() if line.startswith("| canary "))
    assert [cell.strip() for cell in row.strip("|").split("|")][6:10] == ["-", "-", "-", "-"]


def test_a_pipe_gets_no_colours_and_hostile_text_steers_no_terminal(tmp_path: Path) -> None:
    told = printed(report_material.hostile(tmp_path, "[bold]x[/bold]\x1b]0;title\x07")[1])
    assert "\x1b" not in told and "\x07" not in told
    assert "[bold]x[/bold]" in told


def test_json_is_the_verdict_itself(tmp_path: Path) -> None:
    _, verdict = report_material.violated(tmp_path)
    to = io.StringIO()
    terminal.write(verdict, to, as_json=True)
    assert json.loads(to.getvalue())["arms"][0]["tally"]["lost"] == 23
    assert to.getvalue().endswith("}\n")


def test_every_template_is_shown_by_a_page_or_by_another_template() -> None:
    library = Path(material.__file__).parents[1]
    sources = "".join(file.read_text() for file in library.rglob("*") if file.suffix in (".py", ".j2"))
    assert [file.name for file in library.rglob("*.html.j2") if f'"{file.name}"' not in sources] == []


def test_a_table_that_pages_do_not_read_is_no_missing_table(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="add it to COLUMNS"):
        material.Material(tmp_path, None).table(tables.PRODUCERS)


def test_the_proof_of_what_somebody_else_did_shows_each_sign_and_what_was_assumed() -> None:
    injection = Injection(
        id=0,
        cycle=0,
        action="observe",
        brokers=[11],
        hit={"t": [0]},
        requested_at_us=1,
        effect_at_us=1,
        took_effect=True,
        proof={
            "before": {"t-0": {"leader": 11, "leader_epoch": 0}},
            "observed": {"refused connections": {"after_ms": 400}, "left the ISR of t-0": {"after_ms": 2900}},
            "assumed": {"session_ms": 9000, "silence_counts": False},
        },
    )
    proof = proof_of(injection)
    assert proof.sentences == ["Assumed of the brokers: session (ms) 9,000, silence counts no."]
    signs = proof.tables[1]
    assert (signs.title, signs.headings) == (
        "What was seen from outside, by the time since the begin",
        ["of", "after (ms)"],
    )
    assert signs.rows == [["refused connections", "400"], ["left the ISR of t-0", "2,900"]]

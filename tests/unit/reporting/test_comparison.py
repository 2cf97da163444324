"""Tests of the comparison of two runs: it shows all differences. If two runs must not be compared, the page says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace
from support import report_material
from support.readers import visible
from support.stored_data import relink

from delivery_verifier.command_line import main as cli
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.reporting.comparison import comparison
from delivery_verifier.reporting.comparison import page as compare_page
from delivery_verifier.run_directory.ledger import LOAD_BEGAN
from delivery_verifier.run_directory.run_directory import RunDirectory

LOAD_BEGAN_US = 1_700_000_000_000_000
Make = Callable[..., tuple[Path, RunVerdict]]


def stored(runs: Path, make: Make, run_id: str, change: Callable[[Scenario], Scenario] = lambda it: it) -> Path:
    """Makes a finished run whose scenario `change` has changed. Returns its run directory."""
    path, verdict = make(runs, run_id)
    run = RunDirectory(path)
    with run.writing("plan") as output:
        output.write_json("scenario.json", change(run.read_scenario()))
    with run.writing("produce") as output:
        output.counts[LOAD_BEGAN] = LOAD_BEGAN_US
        output.write_table("ledger/one", ledger("safe"))
    relink(run)
    with run.writing("conclude") as output:
        output.write_json("verdict.json", verdict)
    return path


def ledger(arm: str) -> pa.Table:
    """Returns a ledger: a warm-up of 50 records 10 s before the load, then 2,000 reported records in 4 s, and one
    FAILED record."""
    sent_us = [LOAD_BEGAN_US - 10_000_000] * 50 + [LOAD_BEGAN_US + 2_000 * number for number in range(2_001)]
    time, count = pa.timestamp("us", tz="UTC"), len(sent_us)
    return pa.table(
        {
            "arm": [arm] * count,
            "outcome": ["ACKED"] * (count - 1) + ["FAILED"],
            "sent_at": pa.array(sent_us, time),
            "settled_at": pa.array([us + 2_000 for us in sent_us], time),
        }
    )


def on_kafka(version: str) -> Callable[[Scenario], Scenario]:
    return lambda it: replace(
        it, cluster=replace(it.cluster, kafka_version=version), versions={**it.versions, "kafka": version}
    )


def test_two_versions_of_one_scenario_are_comparable_and_their_figures_stand_side_by_side(tmp_path: Path) -> None:
    left = stored(tmp_path, report_material.held, "a", on_kafka("4.2.1"))
    right = stored(tmp_path, report_material.held, "b", on_kafka("4.3.1"))
    found = comparison.compare(left, right)
    assert found.obstacles == []
    assert [(row.name, row.left, row.right) for row in found.versions if row.differs] == [
        ("Kafka under test", "4.2.1", "4.3.1"),
        ("kafka", "4.2.1", "4.3.1"),
    ]
    assert [(pair.name, pair.role) for pair in found.pairs] == [
        ("safe", "subject"),
        ("control-acks_0", "control"),
        ("canary", "canary"),
    ]
    subject = found.pairs[0]
    figures = {row.name: (row.left, row.right) for row in subject.figures}
    assert figures["acked"] == ("41,210", "41,210") and figures["exposed records"] == ("6,120", "6,120")
    assert figures["longest silence"] == ("3.4 s", "3.4 s")
    assert figures["reported per second"] == ("500", "500")
    assert {"latency outside faults, half within", "latency during faults, 99 % within"} <= set(figures)
    assert {row.name: row.left for row in subject.anomalies}["LOST"] == "0 (forbidden)"
    told = visible(compare_page.render(found))
    assert compare_page.SAME in told and "a beside b" in told and "is no proof of a difference" in told


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda it: replace(it, load=replace(it.load, rate=77)), "load: rate"),
        (lambda it: replace(it, seed=8), "seed"),
        (lambda it: replace(it, fault=replace(it.fault, cycles=3)), "fault: cycles"),
        (lambda it: replace(it, cluster=replace(it.cluster, session_timeout_ms=9000)), "cluster: session_timeout_ms"),
        (lambda it: replace(it, arms=(replace(it.arms[0], claim="ordered"), *it.arms[1:])), "subject: claim"),
        (
            lambda it: replace(
                it,
                arms=(
                    replace(
                        it.arms[0],
                        profile=replace(it.arms[0].profile, producer={**it.arms[0].profile.producer, "linger.ms": 9}),
                    ),
                    *it.arms[1:],
                ),
            ),
            "subject: linger.ms",
        ),
    ],
)
def test_runs_of_two_scenarios_are_said_not_to_be_comparable(
    tmp_path: Path, change: Callable[[Scenario], Scenario], named: str
) -> None:
    runs = stored(tmp_path, report_material.held, "a"), stored(tmp_path, report_material.held, "b", change)
    found = comparison.compare(*runs)
    assert [row.name for row in found.obstacles] == [named]
    told = visible(compare_page.render(found))
    assert "NOT the same scenario" in told and named in told and compare_page.SAME not in told


def test_two_profiles_are_paired_by_role_and_what_one_lacks_is_a_dash(tmp_path: Path) -> None:
    found = comparison.compare(
        stored(tmp_path, report_material.held, "a"), stored(tmp_path, report_material.violated, "b")
    )
    subject = found.pairs[0]
    assert subject.name == "safe / acks_all"
    assert {row.name: (row.left, row.right) for row in subject.anomalies}["LOST"] == ("0 (forbidden)", "23 (forbidden)")
    assert "subject: enable.idempotence" in [row.name for row in found.obstacles]
    alone = msgspec.structs.replace(
        found.left.scenario, arms=tuple(arm for arm in found.left.scenario.arms if arm.role != "control")
    )
    (tmp_path / "c").mkdir()
    path = stored(tmp_path / "c", report_material.held, "c", lambda it: replace(it, arms=alone.arms))
    lacking = comparison.compare(path, tmp_path / "b").pairs
    control = next(pair for pair in lacking if pair.role == "control")
    assert control.verdicts[0] is None and {row.left for row in control.figures} == {"–"}
    assert "no such arm" in visible(compare_page.render(comparison.compare(path, tmp_path / "b")))


def test_the_command_writes_the_page_and_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        str(stored(tmp_path, report_material.held, name, on_kafka(v))) for name, v in (("a", "4.2.1"), ("b", "4.4.0"))
    ]
    assert cli.main(["compare", *runs, "--out", str(tmp_path / "page.html")]) == 0
    told = capsys.readouterr().out
    assert "Kafka under test" in told and "4.4.0" in told and str(tmp_path / "page.html") in told
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and not re.search(r'(?:src|href)="(?!data:|#)', page)


@pytest.mark.parametrize(
    "line",
    [
        ["a"],
        [],
        ["a", "b", "c"],
        ["nowhere", "nowhere"],
        ["a", "b", "--kafka-versions", "4.2.1", "4.3.1"],
        ["--kafka-versions", "4.2.1", "3.9.0", "--direct"],
        ["--kafka-versions", "4.2.1", "4.3.1", "--clients", "librdkafka", "java"],
        ["a", "b", "--clients", "librdkafka", "java"],
        ["--clients", "librdkafka", "rust", "--direct"],
        ["--clients", "librdkafka", "java:9", "--direct"],
    ],
)
def test_what_cannot_be_compared_is_bad_input_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: list[str]
) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    stored(tmp_path, report_material.held, "a"), stored(tmp_path, report_material.held, "b")
    assert cli.main(["compare", *line]) == cli.BAD_INPUT
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_run_without_a_verdict_or_with_altered_tally_is_not_compared(tmp_path: Path) -> None:
    whole = stored(tmp_path, report_material.held, "a")
    unjudged, _ = report_material.held(tmp_path, "b")
    assert cli.main(["compare", str(whole), str(unjudged), "--out", str(tmp_path / "x.html")]) == cli.BAD_INPUT
    altered = stored(tmp_path, report_material.held, "c")
    with (altered / "counts" / "gaps.parquet").open("ab") as file:
        file.write(b"x")
    assert cli.main(["compare", str(whole), str(altered), "--out", str(tmp_path / "x.html")]) == cli.BAD_INPUT
    assert not (tmp_path / "x.html").exists()


def test_text_of_a_run_cannot_become_part_of_the_page(tmp_path: Path) -> None:
    poison = '"><img src=x onerror=alert(1)></script>'
    found = comparison.compare(
        stored(tmp_path, report_material.held, "a", lambda it: replace(it, commit=poison)),
        stored(tmp_path, report_material.held, "b"),
    )
    assert "<img" not in compare_page.render(found)


def _render(*runs: Path) -> str:
    return compare_page.render(comparison.compare(*runs))


def test_the_two_verdicts_stand_first(tmp_path: Path) -> None:
    page = _render(stored(tmp_path, report_material.held, "a"), stored(tmp_path, report_material.violated, "b"))
    first = page.split("<section")[1]
    assert "<h1>HELD beside VIOLATED</h1>" in first
    assert first.index("✔ HELD") < first.index("A: a") < first.index("✘ VIOLATED") < first.index("B: b")
    assert "<h1>Both runs HELD</h1>" in _render(tmp_path / "a", tmp_path / "a")


def test_figures_that_differ_are_shown_and_equal_ones_are_folded(tmp_path: Path) -> None:
    page = _render(stored(tmp_path, report_material.held, "a"), stored(tmp_path, report_material.violated, "b"))
    subject = page.split("<section")[3]
    shown = re.sub(r"<details>.*?</details>", "", subject, flags=re.S)
    assert "LOST" in shown and "CORRUPTED" not in shown and "CORRUPTED" in subject
    folded = re.findall(r"<details>.*?</details>", subject, flags=re.S)
    assert not [part for part in folded if "<small>differs" in part]


def test_an_arm_of_one_run_only_is_one_line_and_not_a_table_of_differences(tmp_path: Path) -> None:
    whole = stored(tmp_path, report_material.held, "a")
    arms = RunDirectory(whole).read_scenario().arms
    other = stored(
        tmp_path,
        report_material.held,
        "b",
        lambda it: replace(it, arms=tuple(arm for arm in arms if arm.role != "control")),
    )
    found = comparison.compare(whole, other)
    assert [(row.name, row.left, row.right) for row in found.obstacles] == [
        ("control-acks_0: arm", "control-acks_0", "–")
    ]
    section = next(part for part in _render(whole, other).split("<section") if "Only A has this arm" in part)
    assert "<table" not in section and "B has no such arm" in section

"""Tests of how pages show what to change: with prices, the cheapest change first, and never more than fits."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from support import report_material
from support.commands import plan
from support.run_builder import priced
from support.stored_data import RUNS, VIOLATED

from delivery_verifier.model.advice import Advice, Option, Permit
from delivery_verifier.reporting.blocks import Blocks, blocks_of
from delivery_verifier.reporting.changes import OPTIONS_SHOWN, SUBJECTS_SHOWN, PricedAdvice, priced_advices
from delivery_verifier.reporting.material import read
from delivery_verifier.reporting.report.proofs import proof_of
from delivery_verifier.run_directory.run_directory import RunDirectory

STORED = RUNS / VIOLATED


def stored(runs: Path | None = None) -> PricedAdvice:
    """What is said of the stored run of acks=1 on a host with the price runs in `runs`."""
    (advice,) = priced_advices(RunDirectory(STORED).verdict().advice or [], runs)
    return advice


def test_the_command_measures_the_prices_that_are_missing() -> None:
    assert stored().to_measure == "kdv price --profiles acks_1,acks_all,idempotent"
    plan(stored().to_measure)


def test_a_price_is_that_of_the_newest_runs_beside_the_run(tmp_path: Path) -> None:
    for name in ("price.flat_out.acks_all", "price.none.acks_all"):
        priced(tmp_path, name)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "scenario.json").write_text('{"name": "price.none.idempotent"')
    first, second = stored(tmp_path).options
    assert (first.price.speed, first.price.day) == ("1,001 records/s", "2026-11-21")
    assert first.price.latency and not first.price.unmeasured
    assert (second.price.speed, second.price.unmeasured) == ("", "idempotent")


def test_the_cheapest_change_comes_first_whatever_the_verdict_says_first(tmp_path: Path) -> None:
    for name in ("price.flat_out.idempotent", "price.none.idempotent"):
        priced(tmp_path, name)
    assert [option.change for option in stored(tmp_path).options] == [
        "acks=all and enable.idempotence=true",
        "acks=all",
    ]


def test_of_an_arm_that_held_a_change_that_permits_something_else_is_last_at_any_price(tmp_path: Path) -> None:
    for name in ("price.flat_out.acks_all", "price.none.acks_all"):
        priced(tmp_path, name)
    permit = Permit(anomaly="DUPLICATED", sentence="A retry is appended.")
    options = [Option(change="dear"), Option(change="cheap", permits=[permit], price_of="acks_all")]
    (advised,) = priced_advices([Advice(kind="held", arm="a", lead="", options=options)], tmp_path)
    assert [(each.change, each.effect, each.permits) for each in advised.options] == [
        ("dear", [], []),
        ("cheap", ["A retry is appended."], ["duplicated"]),
    ]


def test_what_would_give_a_promise_up_keeps_its_order_and_says_one_reason() -> None:
    permits = [Permit(anomaly=kind, sentence=f"{kind} may happen.") for kind in ("LOST", "DUPLICATED")]
    loose = [Option(change=f"change {number}", permits=permits) for number in range(OPTIONS_SHOWN + 1)]
    advice = Advice(kind="held", arm="a", lead="", loosenings=loose)
    shown = priced_advices([advice] * (SUBJECTS_SHOWN + 1), None)
    assert len(shown) == SUBJECTS_SHOWN
    assert [option.change for option in shown[0].options] == [f"change {number}" for number in range(OPTIONS_SHOWN)]
    assert {(*option.effect, *option.permits) for option in shown[0].options} == {("LOST may happen.",)}


def test_without_a_verdict_or_without_its_advice_nothing_is_shown(tmp_path: Path) -> None:
    _, verdict = report_material.held(tmp_path)
    assert blocks_of(None, tmp_path) == Blocks()
    assert blocks_of(replace(verdict, advice=None), tmp_path).advices == []


def test_a_proof_is_reported_in_sentences_and_tables_and_never_as_json() -> None:
    (injection,) = read(STORED, None).injections
    proof, topic = proof_of(injection), RunDirectory(STORED).read_scenario().arm("acks_1").topic_name
    text = " ".join([*proof.sentences, *(cell for table in proof.tables for row in table.rows for cell in row)])
    assert "Right after the action: broker 1 frozen." in proof.sentences
    assert [table.title for table in proof.tables] == [
        "Leaders before the fault",
        "Leaders while the fault acted: others than its targets",
    ]
    assert proof.tables[1].headings == ["of", "isr", "leader", "leader epoch"]
    assert proof.tables[1].rows[0] == [f"{topic}-0", "2, 3", "2", "1"]
    assert not {"{", "}", "[", '"'} & set(text)

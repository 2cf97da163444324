"""Tests of bench/campaigns/breaks.py: every break of its list can be planted, and a run that says nothing is not
red."""

from __future__ import annotations

import ast
from itertools import islice, pairwise
from pathlib import Path
from types import ModuleType

import gate
import pytest

from bench.campaigns import breaks as breaks_campaign
from bench.kit.breaks import checkout_copy

ROOT = Path(__file__).resolve().parents[3]
TABLE = """\
folder              tests   processor
unit                    3         4 s
all                     3         4 s      6 s by the clock
"""


@pytest.fixture
def program() -> ModuleType:
    """The module bench/campaigns/breaks.py."""
    return breaks_campaign


def test_every_break_can_be_planted_and_loads(program: ModuleType) -> None:
    breaks = program.listed().breaks
    assert len({each.name for each in breaks}) == len(breaks) >= 30
    for each in breaks:
        broken = each.broken(ROOT)
        assert broken != (ROOT / each.file).read_text(), each.name
        if each.file.endswith(".py"):
            ast.parse(broken)


def test_a_break_whose_text_is_not_there_is_named(program: ModuleType) -> None:
    gone = program.Break("gone", "", "Makefile", "there is no such text", "", "")
    with pytest.raises(ValueError, match="gone: its text is 0 times in Makefile"):
        gone.broken(ROOT)


def test_every_capability_of_the_gate_has_a_break(program: ModuleType) -> None:
    assert {each.capability for each in program.listed().breaks} == {one.name for one in gate.read().capability}


def test_every_equivalent_is_a_mutant_of_today(program: ModuleType) -> None:
    from bench.kit.mutants.changes import by_change, mutants

    for each in program.listed().equivalent:
        assert (each.scope, each.before, each.after) in by_change(mutants((ROOT / each.module).read_text())), each


def test_a_seed_draws_the_same_mutants_and_names_an_equivalent_one(program: ModuleType) -> None:
    from bench.kit.breaks.drawn import Equivalent, draw

    drawn = [*islice(draw(ROOT, 1, []), 40)]  # a module may have a single mutant
    at = next(at for at, (one, other) in enumerate(pairwise(drawn)) if one.module == other.module)
    first, second = drawn[at : at + 2]
    assert first.code != second.code and ast.parse(first.code)
    known = Equivalent(first.module, first.scope, first.before, first.after, "it shows nowhere")
    again, other = [*islice(draw(ROOT, 1, [known]), at + 2)][at:]
    assert (again.code, again.why, other) == (first.code, "it shows nowhere", second)


@pytest.mark.parametrize(
    ("said", "code", "failed", "unfit"),
    [
        ("3 passed, 0 failed, 0 skipped", 0, "", ""),
        ("failed: tests/a.py::b: assert 1 == 2\n2 passed, 1 failed, 0 skipped", 1, "tests/a.py::b: assert 1 == 2", ""),
        ("0 passed, 1 failed, 0 skipped", 1, "", "0 passed, 1 failed, 0 skipped"),
        ("left behind by kafka: 7 java\n3 passed, 1 failed, 0 skipped", 1, "left behind by kafka: 7 java", ""),
        ("0 passed, 0 failed, 3 skipped", 0, "", "no test was run"),
    ],
    ids=["green", "red", "no report", "a process left", "skipped"],
)
def test_only_a_test_that_failed_is_red(program: ModuleType, said: str, code: int, failed: str, unfit: str) -> None:
    outcome = checkout_copy.outcome_of(TABLE + said, code)
    assert (outcome.failed, outcome.cpu_s) == (failed, 4.0)
    assert unfit in outcome.unfit and bool(unfit) == bool(outcome.unfit)


def test_without_a_break_no_test_of_a_capability_may_be_skipped() -> None:
    said = f"{TABLE}2 passed, 0 failed, 1 skipped"
    assert "Chromium" in checkout_copy.outcome_of(said, 0, may_skip=False).unfit
    assert not checkout_copy.outcome_of(said, 0).unfit

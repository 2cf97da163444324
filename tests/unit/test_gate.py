"""gate.toml names tests that exist, stays within its budget, and has every capability that a user is offered."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import batches
import costs
import gate
import pytest
from costs import Spent

from delivery_verifier.command_line import main as cli

GATE = gate.read()
ROOT = gate.HERE.parent


def test_every_test_that_is_named_exists_and_is_quick_enough_to_run() -> None:
    for test in (test for one in GATE.capability for test in one.tests):
        module, _, name = test.partition("::")
        text = (gate.HERE / module).read_text()
        function = re.search(rf"^((?:@.*\n)*)def {name.partition('[')[0]}\(", text, re.MULTILINE)
        assert not name or (function and "mark.slow" not in function[1]), f"{test}: no such test, or it is slow"


def test_it_stays_within_its_budget() -> None:
    assert GATE.cpu_s <= GATE.budget_cpu_s <= gate.MOST_CPU_S, "take a test out, or raise the budget by at most 100"


def test_every_capability_says_what_nobody_would_notice_and_has_a_name_of_its_own() -> None:
    assert all(one.without.startswith("that ") and one.tests for one in GATE.capability)
    assert len({one.name for one in GATE.capability}) == len(GATE.capability)


def test_every_room_has_a_capability_that_a_change_of_it_tries() -> None:
    library = {path.parent.name for path in (ROOT / "plugins/delivery_verifier").glob("*/__init__.py")}
    named = {room for one in GATE.capability for room in one.rooms} - {"*"}
    assert named == library | {"spark_jobs", "expectations", "dags", "docker"}


def commands() -> set[str]:
    """Returns the commands of kdv."""
    (sub,) = [action for action in cli._parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return {f"kdv {name}" for name in sub.choices}


def in_readme() -> set[str]:
    """Returns the commands that README.md tells a user."""
    text = (ROOT / "README.md").read_text()
    return {" ".join(found) for found in re.findall(r"\b(kdv|make) ([a-z][a-z-]+)", text)} - {"make it"}


def test_every_command_that_help_and_readme_offer_is_a_capability_of_the_gate() -> None:
    """tests/airflow/test_form.py asks the same of the fields of the form."""
    named = [offer for one in GATE.capability for offer in one.offers if not offer.startswith("form ")]
    assert sorted(named) == sorted(commands() | in_readme()), "each once"


def test_a_cost_is_counted_for_each_capability_and_for_the_quick_tests() -> None:
    first = GATE.capability[0].tests[0]
    spent = [Spent(first, 7.0, 0.1, False), Spent("unit/model/test_x.py::test_y", 2.0, 2.0, True)]
    said = costs.by_capability(spent, GATE)
    assert re.search(
        rf"^ +7 s +{GATE.capability[0].cpu_s} s  {re.escape(GATE.capability[0].name)}$", said, re.MULTILINE
    )
    assert re.search(r"^ +2 s +\d+ s  the quick tests of unit/$", said, re.MULTILINE)
    assert re.search(rf"^ +9 s +{GATE.cpu_s} s  the gate", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("test", "names", "covered"),
    [
        ("kafka/test_a.py::test_x[one]", ["kafka/test_a.py::test_x"], True),
        ("kafka/test_a.py::test_x[one]", ["kafka/test_a.py::test_x[one]"], True),
        ("kafka/test_a.py::test_x", ["kafka/test_a.py"], True),
        ("kafka/test_a.py::test_x", ["kafka"], True),
        ("kafka/test_a.py::test_xy", ["kafka/test_a.py::test_x"], False),
        ("kafka/test_ab.py::test_x", ["kafka/test_a.py"], False),
        ("kafka/test_a.py::test_x[one]", ["kafka/test_a.py::test_x[two]"], False),
    ],
)
def test_an_id_covers_its_own_tests_and_no_others(test: str, names: list[str], covered: bool) -> None:
    assert gate.covers(test, names) == covered


def test_what_is_recorded_is_read_back_and_modules_that_are_gone_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "COSTS", tmp_path / "costs.json")
    gate.COSTS.write_text(
        '{"date": "", "machine": "", "modules": {"unit/no.py": {"tests": 1, "cpu_s": 1, "gate_cpu_s": 1}}}'
    )
    whole, partly = "quality/test_effects.py", "quality/test_validation.py"
    first = next(test for test in GATE.tests if test.startswith(partly))
    costs.record([Spent(first, 2.0, 0.1, False), Spent(f"{partly}::test_other", 3.0, 0.1, False)])
    costs.record([Spent(f"{whole}::test_other", 4.0, 0.1, False)])
    known = gate.read_costs().modules
    assert {*known} == {whole, partly}
    assert (known[partly].cpu_s, known[partly].gate_cpu_s, known[partly].rest_cpu_s) == (5.0, 2.0, 3.0)
    batch = batches.Batch((whole, first))
    assert costs.of_batch(batch, gate.read_costs()) == 4.0 + 2.0

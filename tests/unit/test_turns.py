"""A turn of continuous integration runs what a change of the last day reaches, and a part of the rest; nothing is
forgotten."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import batches
import gate
import pytest
import turns
from batches import COMPOSE, TURN_CPU_S, TURNS, Memory
from gate import Cost

NAMES = [f"kafka/test_{at}.py" for at in range(60)]
COSTS = {name: Cost(1, 20.0 + at, 0.0) for at, name in enumerate(NAMES)}
LEAST_WITHIN = TURNS + 1
"""Within so many turns in a row, each module is run once."""


def play(memory: Memory, reached: list[str], slot: int, late: int = 0) -> list[str]:
    """Plays one turn, in which the last `late` modules do not begin. Returns what was run."""
    chosen, owed = batches.choose(NAMES, COSTS, memory, reached, slot)
    ran = [*chosen[: len(chosen) - late]]
    memory.turn += 1
    memory.ran |= dict.fromkeys(ran, memory.turn)
    memory.owed = [*owed, *chosen[len(ran) :]]
    return ran


@pytest.mark.parametrize("seed", range(20))
def test_within_any_four_turns_every_module_is_run(seed: int) -> None:
    dice, memory = random.Random(seed), Memory()
    turned = [{*play(memory, dice.sample(NAMES, dice.randrange(20)), dice.randrange(9))} for _ in range(30)]
    for at in range(len(turned) - LEAST_WITHIN + 1):
        assert {*NAMES} == set().union(*turned[at : at + LEAST_WITHIN])


def test_a_change_that_reaches_everything_runs_the_dearest_over_the_next_turns() -> None:
    costs = {name: Cost(1, cost.cpu_s * 1.5, 0.0) for name, cost in COSTS.items()}
    first, owed = batches.choose(NAMES, costs, Memory(), NAMES, 0)
    assert sum(costs[name].cpu_s for name in first[:-1]) < TURN_CPU_S <= sum(costs[name].cpu_s for name in first)
    assert max(costs[name].cpu_s for name in first) <= min(costs[name].cpu_s for name in owed)
    memory = Memory(turn=1, ran=dict.fromkeys(first, 1), owed=[*owed])
    chosen, _ = batches.choose(NAMES, costs, memory, NAMES, 1)
    assert {*chosen[: len(owed)]} == {*owed} != set(), "what is owed comes first"


def test_what_did_not_begin_comes_first_the_next_time() -> None:
    memory = Memory()
    chosen, _ = batches.choose(NAMES, COSTS, memory, [], 0)
    ran = play(memory, [], 0, late=5)
    again, _ = batches.choose(NAMES, COSTS, memory, [], 0)
    assert {*again[:5]} == {*chosen} - {*ran} and len(ran) == len(chosen) - 5


def test_a_host_that_remembers_nothing_begins_with_a_part_that_depends_on_the_commit() -> None:
    parts = [batches.choose(NAMES, COSTS, Memory(), [], slot)[0] for slot in range(TURNS)]
    assert len({part[0] for part in parts}) == TURNS and set().union(*parts) == {*NAMES}


def test_every_module_is_run_by_the_gate_or_in_a_turn_and_none_in_both_but_for_random_histories() -> None:
    asked = gate.read()
    rest = batches.beside_the_gate(asked)
    heavy = {name for tier in batches.TIERS if tier != "unit" for name in batches.modules(tier)}
    assert heavy <= {*rest} | {*asked.tests} and COMPOSE in rest
    both = {*rest} & {*asked.tests}
    assert both == {"quality/test_every_planted_anomaly_is_found.py"}
    for batch in batches.of_turn(rest, [], asked):
        if batch.name == "unit":
            assert batch.options == ("-m", "slow")
        else:
            deselected = {word.removeprefix("tests/") for word in batch.options if word != "--deselect"}
            assert deselected <= {*asked.tests} and not any("histories" in test or test in both for test in deselected)


@pytest.mark.parametrize("seed", range(10))
def test_what_shares_a_folder_runs_together_what_is_owed_first_and_the_rest_as_test_all_has_it(seed: int) -> None:
    asked, dice = gate.read(), random.Random(seed)
    chosen = dice.sample([name for name in batches.beside_the_gate(asked) if name != COMPOSE], 60)
    owed = dice.sample(chosen, seed)
    for batch in batches.of_turn(chosen, owed, asked):
        folders = [name.split("/")[:-1] for name in batch.ids]
        for at in range(1, max(map(len, folders)) + 1):
            runs = [folder for folder, _ in itertools.groupby(folder[:at] for folder in folders)]
            runs = [folder for folder in runs if len(folder) == at]
            assert len(runs) == len({*map(tuple, runs)}), f"pytest returns to a folder: {runs}"
        assert sorted(batch.ids) == sorted(name for name in chosen if name in batch.ids)
        for tier, found in itertools.groupby(batch.ids, lambda name: name.split("/")[0]):
            ids = [*found]
            assert ids[0] in owed if {*owed} & {*ids} else ids == sorted(ids), tier


class Row:
    """A result of a batch, as tests/tiers.py has it."""

    def __init__(self, passed: list[str], failed: list[str], unfinished: list[str]) -> None:
        self.spent = [_Spent(f"{name}::test_x") for name in (*passed, *failed)]
        self.failed = [f"failed: tests/{name}::test_x: for some reason" for name in failed]
        self.unfinished, self.left = unfinished, list[str]()


class _Spent:
    def __init__(self, test: str) -> None:
        self.test = test


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_CACHE", str(tmp_path))
    return tmp_path / "tests.json"


def test_what_failed_or_did_not_begin_is_owed(cache: Path) -> None:
    plan = turns.Plan([], chosen=["a.py", "b.py", "c.py"], owed=["d.py"], turn=True)
    turns.remember(plan, [Row(["a.py"], ["b.py"], ["c.py"])])  # type: ignore[list-item]
    memory = turns._read()
    assert (memory.turn, memory.ran, memory.owed) == (1, {"a.py": 1}, ["b.py", "c.py", "d.py"])


def test_what_has_passed_at_this_state_is_not_run_again_and_at_another_state_it_is(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns.remember(turns.Plan([], state=turns._state()), [Row(["kafka/test_proxy.py"], ["kafka/test_agent.py"], [])])  # type: ignore[list-item]
    (batch,) = turns._whole(["kafka"], afresh=False, compose=False).batches
    assert "kafka/test_proxy.py" not in batch.ids and "kafka/test_agent.py" in batch.ids
    assert turns._whole(["kafka"], afresh=True, compose=False).batches[0].ids == ("kafka",)
    monkeypatch.setattr(turns, "_state", lambda: "another")
    assert turns._whole(["kafka"], afresh=False, compose=False).batches[0].ids == ("kafka",)


@pytest.mark.parametrize("text", ["", "{", '{"turn": "x"}'])
def test_a_memory_that_cannot_be_read_is_none(cache: Path, text: str) -> None:
    cache.write_text(text)
    assert turns._read() == Memory()


def test_compose_does_not_begin_when_the_time_is_up_and_is_owed(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(turns.UNTIL, "1")
    assert turns.compose(turns.Plan([], compose=True, turn=True), 0) == 0
    assert turns._read().owed == [COMPOSE] and "not begun" in capsys.readouterr().out

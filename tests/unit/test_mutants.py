"""Mutation testing: the mutants, the trials, and the explanations of survivors."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[2]

CODE = """
LIMITS = {"low": 1}

def is_high(value: int | None) -> bool:
    return value is not None and value > LIMITS["low"]
"""
TESTS = """
from code_that_decides.module import is_high

def test_a_high_value_is_high():
    assert is_high(9)
"""
BETTER_TESTS = (
    TESTS
    + """
def test_values_at_the_edge():
    assert is_high(2) and not is_high(1) and not is_high(None)
"""
)
WORK = (
    "import sys; from pathlib import Path; from bench.campaigns import mutants; "
    "sys.exit(mutants.work(Path(sys.argv[1]), {'code_that_decides': ('tests',)}, '1/1', [], *map(int, sys.argv[2:])))"
)


def test_our_own_operators_do_what_their_examples_say() -> None:
    from bench.kit.mutants import changes as mutants_code
    from bench.kit.mutants import operators as mutants_operators

    for operator in mutants_operators.OWN:
        for example in operator.examples():
            source = example.pre_mutation_code
            changed = mutants_code.changes(source, operator(), mutants_code.nodes_of(source))
            codes = [code for _, code in changed]
            assert codes[example.occurrence] == example.post_mutation_code


def test_the_changes_of_an_operator_are_those_of_cosmic_ray() -> None:
    from cosmic_ray.mutating import MutationVisitor

    from bench.kit.mutants import changes as mutants_code

    source = (ROOT / "bench/kit/mutants/results.py").read_text() + CODE
    nodes = mutants_code.nodes_of(source)
    for operator in mutants_code.operators():
        codes = [code for _, code in mutants_code.changes(source, operator, nodes)]
        assert codes == [MutationVisitor.mutate_code(source, operator, number) for number in range(len(codes))]


def test_annotations_and_options_of_classes_have_no_mutants() -> None:
    from bench.kit.mutants import changes as mutants_code

    source = "@form(slots=True)\nclass Row(Struct, frozen=True):\n    size: int | None = 1\n"
    changes = {after for _, _, after in mutants_code.by_change(mutants_code.mutants(source))}
    assert changes == {"size: int | None = 2", "size: int | None = 0", ""}, "the last has no decorator"


def test_a_change_is_known_by_its_words_wherever_its_line_moves() -> None:
    from bench.kit.mutants import changes as mutants_code

    changes = set(mutants_code.by_change(mutants_code.mutants(CODE)))
    assert ("is_high", CODE.splitlines()[4].strip(), 'return value is not None and value >= LIMITS["low"]') in changes
    assert set(mutants_code.by_change(mutants_code.mutants("\n\n" + CODE))) == changes
    twice = mutants_code.by_change(mutants_code.mutants("x(a == 1)\nx(a == 1)\n"))
    assert {scope for scope, _, _ in twice} == {"", "#2"}


def test_a_change_of_a_docstring_leaves_every_outcome_as_it_is() -> None:
    from bench.kit.mutants import changes as mutants_code

    described, changed = CODE.replace("    return", '    """Says it.\n\n    """\n    return'), CODE.replace("1", "2")
    digests = [
        {mutant.digest for mutant in mutants_code.mutants(source)} | {mutants_code.digest(source)}
        for source in (CODE, described, changed)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_some_mutants_of_a_module_are_known_as_they_are_among_all_mutants() -> None:
    from bench.kit.mutants import changes as mutants_code

    source = CODE + "x(a == 1)\nx(a == 1)\n"
    every = {change: mutant.digest for change, mutant in mutants_code.by_change(mutants_code.mutants(source)).items()}
    assert any("#2" in scope for scope, _, _ in every)
    for change, digest in every.items():
        found = mutants_code.by_change(mutants_code.mutants(source, {change}))
        assert found[change].digest == digest and len(found) < len(every) / 2, change
    assert mutants_code.mutants(source, [("", "f()", "g()")]) == []


@pytest.mark.slow
def test_every_explanation_has_its_mutant() -> None:
    from bench.campaigns import mutants

    explained = mutants.explanations(ROOT)
    assert mutants.without_mutant(ROOT, explained) == []
    assert len({(explanation.module, explanation.change) for explanation in explained}) == len(explained)


def test_an_explanation_whose_mutant_does_not_exist_is_reported(tmp_path: Path) -> None:
    from bench.campaigns import mutants
    from bench.kit.mutants.results import Explanation

    (tmp_path / "module.py").write_text(CODE)
    change = ("is_high", CODE.splitlines()[4].strip(), 'return value is not None and value >= LIMITS["low"]')
    present = Explanation(*change, module="module.py", why="a trial")
    gone = [Explanation(*change, module="gone.py", why="x"), Explanation("is_low", "", "", module="module.py", why="x")]
    assert mutants.without_mutant(tmp_path, [present, *gone]) == gone


def test_a_result_is_bad_if_a_survivor_is_not_explained_or_too_few_were_killed(tmp_path: Path) -> None:
    from bench.campaigns import mutants
    from bench.kit.mutants.results import ModuleResult, Survivor

    for folder in ("docs/results", "bench/campaigns", mutants.OUTCOMES):
        (tmp_path / folder).mkdir(parents=True)
    survivor = Survivor("", 'LIMITS = {"low": 1}', 'LIMITS = {"low": 2}')
    (tmp_path / "module.py").write_text(CODE)
    (tmp_path / mutants.EXPLANATIONS).write_text("")
    mutants.save(tmp_path, "module.py", ModuleResult(digest="today", mutants=20, survivors=[survivor]))
    assert mutants.conclude(tmp_path, {"module.py": "today"}) == 1, "not explained"
    text = "[[survivor]]\nmodule = 'module.py'\nscope = ''\nbefore = '%s'\nafter = '%s'\nwhy = 'a trial'\n"
    (tmp_path / mutants.EXPLANATIONS).write_text(text % (survivor.before, survivor.after))
    assert mutants.conclude(tmp_path, {"module.py": "today"}) == 0
    assert mutants.conclude(tmp_path, {"module.py": "today", "other.py": ""}) == 1, "one was not tried"
    (tmp_path / mutants.EXPLANATIONS).write_text(text % (survivor.before, "LIMITS = {}"))
    assert mutants.conclude(tmp_path, {"module.py": "today"}) == 1, "no such mutant"
    (tmp_path / mutants.EXPLANATIONS).write_text(text % (survivor.before, survivor.after))
    mutants.save(tmp_path, "module.py", ModuleResult(digest="today", mutants=19, survivors=[survivor]))
    assert mutants.conclude(tmp_path, {"module.py": "today"}) == 1, "too few killed"


def test_a_result_of_another_day_is_no_result(tmp_path: Path) -> None:
    from bench.campaigns import mutants
    from bench.kit.mutants.results import ModuleResult

    for folder in ("docs/results", "bench/campaigns", mutants.OUTCOMES):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / mutants.EXPLANATIONS).write_text("")
    mutants.save(tmp_path, "module.py", ModuleResult(digest="yesterday", mutants=20))
    mutants.save(tmp_path, "other.py", ModuleResult(digest="today", mutants=20, timed_out=3, commit="abc1234"))
    assert mutants.conclude(tmp_path, {"module.py": "today", "other.py": "today"}) == 1
    (page,) = (tmp_path / "docs/results").glob("mutants-*.md")
    text = page.read_text()
    assert "Not tried as they are today: module.py." in text and "| module.py |" not in text
    assert "| other.py | 20 | 20 | 3 | 0 | 0 |" in text and "; commit abc1234; " in text
    assert mutants.conclude(tmp_path, {"other.py": "today"}) == 0


def test_a_mutant_whose_tests_took_too_long_is_counted_apart_and_tried_again(tmp_path: Path) -> None:
    from bench.campaigns import mutants
    from bench.kit.mutants.forks import TIMED_OUT
    from bench.kit.mutants.results import ModuleResult

    (tmp_path / "module.py").write_text(CODE)
    target, tried = mutants.Target(tmp_path, "module.py", ()), list[str]()

    class SlowTrials:
        def killer(self, module: str, *_: object) -> str:
            tried.append(module)
            return TIMED_OUT

    first, again = (mutants.run(target, SlowTrials(), tmp_path, ModuleResult()) for _ in range(2))
    assert first.timed_out == again.timed_out == first.mutants == len(tried) / 2 > 0 and first.survivors == []
    (file,) = [*tmp_path.glob("*.jsonl")] or [tmp_path / "none"]
    assert file.name == "none"


def test_another_machine_tries_again_only_what_rests_on_a_file_of_tests_that_changed(tmp_path: Path) -> None:
    from bench.campaigns import mutants
    from bench.kit.mutants.forks import PASSED
    from bench.kit.mutants.results import ModuleResult

    (tmp_path / "module.py").write_text(CODE)
    tests = ("test_a.py", "test_b.py")
    for test in tests:
        (tmp_path / test).write_text("a = 1\n")
    target, tried = mutants.Target(tmp_path, "module.py", tests), list[str]()

    class SomeTrials:
        def killer(self, *_: object) -> str:
            tried.append((*tests, PASSED)[len(tried) % 3])
            return tried[-1]

    def run_elsewhere(last: ModuleResult) -> ModuleResult:
        tried.clear()
        (tmp_path / f"machine-{len([*tmp_path.iterdir()])}").mkdir()
        return mutants.run(target, SomeTrials(), max(tmp_path.glob("machine-*")), last)

    drawn = {mutants.run(target, SomeTrials(), tmp_path, ModuleResult(), {"none"}).mutants}
    assert drawn == {0} and not tried, "a sample tries only what was drawn"
    first = run_elsewhere(ModuleResult())
    killed_by_b = tried.count("test_b.py")
    assert killed_by_b > 0 and len(tried) == first.mutants
    stored = msgspec.json.decode(msgspec.json.encode(first), type=ModuleResult)
    assert run_elsewhere(stored).mutants == first.mutants and len(tried) == len(first.survivors)
    (tmp_path / "test_b.py").write_text("a = 2\n")
    run_elsewhere(stored)
    assert len(tried) == len(first.survivors) + killed_by_b


def test_the_bounds_of_a_share_are_wilsons() -> None:
    from bench.kit.mutants.report import interval

    low, high = interval(97, 100)
    assert (round(low, 4), round(high, 4)) == (0.9155, 0.9897)
    assert interval(10, 10)[1] == pytest.approx(1) and interval(0, 10)[0] == 0


@pytest.mark.parametrize("shard", ["0/4", "5/4", "1/0", "-1/4", "1", "a/b"])
def test_a_shard_that_would_try_nothing_or_another_part_is_refused(
    shard: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench.campaigns import mutants

    assert mutants.part_of("4/4") == (4, 4)
    with pytest.raises(ValueError, match="1 <= I <= N"):
        mutants.part_of(shard)
    monkeypatch.setattr(sys, "argv", ["mutants.py", f"--shard={shard}"])
    with pytest.raises(SystemExit) as refused:
        mutants.main()
    assert refused.value.code == 2 and "a shard is I/N" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--sample=-1"], ["--sample=5", "--shard=1/2"]])
def test_a_sample_that_is_none_or_of_a_shard_is_refused(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench.campaigns import mutants

    monkeypatch.setattr(sys, "argv", ["mutants.py", *options])
    with pytest.raises(SystemExit) as refused:
        mutants.main()
    assert refused.value.code == 2 and "allowed: a number above 0, alone" in capsys.readouterr().err


IN_PLACE = """
RULES = {"low": lambda value: value > 1, "high": lambda value: value > 1}
def outer(limit):
    def inner(value):
        return value > limit
    return inner
of_two = outer(2)
"""


@pytest.mark.parametrize(
    ("before", "after", "call", "result"),
    [
        ('"high": lambda value: value > 1', '"high": lambda value: value < 1', "RULES['high'](0)", True),
        ('"high": lambda value: value > 1', '"high": lambda value: value < 1', "RULES['low'](0)", False),
        ("return value > limit", "return value < limit", "of_two(1)", True),
        ("return value > limit", "return value < limit", "outer(2)(1)", True),
    ],
)
def test_a_function_is_changed_in_place_wherever_it_is_held(before: str, after: str, call: str, result: bool) -> None:
    from bench.kit.mutants.warm import change

    names = functions_of(IN_PLACE)
    functions = [*names["RULES"].values(), names["outer"], names["of_two"]]
    assert change(functions, "file.py", IN_PLACE, IN_PLACE.replace(before, after))
    assert eval(call, names) is result


def test_what_cannot_be_changed_in_place_is_not() -> None:
    from bench.kit.mutants.warm import change

    names = functions_of(IN_PLACE)
    functions = [names["of_two"]]
    assert not change(functions, "file.py", IN_PLACE, IN_PLACE.replace("value > limit", "value > 2")), "no closure"
    assert not change(functions, "file.py", IN_PLACE, IN_PLACE.replace("outer(2)", "outer(3)")), "no function"
    assert not change(functions, "file.py", IN_PLACE, IN_PLACE.replace("def inner", "\n    def inner")), "other lines"
    assert not change([], "file.py", IN_PLACE, IN_PLACE.replace("> limit", "< limit")), "nobody holds it"
    assert names["of_two"](3) and not names["of_two"](2)


def functions_of(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(source, "file.py", "exec"), names)
    return names


def test_each_call_of_a_function_or_lambda_is_noted_by_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.kit.mutants import calls as mutants_calls

    noted: list[str] = []
    monkeypatch.setattr("builtins.__note_of_a_call__", noted.append, raising=False)
    names: dict[str, Any] = {}
    exec(mutants_calls.noting(IN_PLACE, "file.py", "module.py"), names)
    assert noted == ["module.py:3"]
    assert names["RULES"]["low"](2) and names["of_two"](3)
    assert noted == ["module.py:3", "module.py:2", "module.py:4"]
    described = mutants_calls.noting('def f():\n    """Says it."""\n    return 1\n', "file.py", "m")
    exec(described, names)
    assert names["f"]() == 1 and names["f"].__doc__ == "Says it." and noted[-1] == "m:1"


@pytest.mark.slow
def test_work_that_takes_too_long_or_dies_is_no_answer() -> None:
    from bench.kit.mutants import forks as mutants_forks

    assert mutants_forks.forked(lambda: "killer", 5) == "killer"
    assert mutants_forks.forked(lambda: "", 5) == mutants_forks.PASSED
    assert mutants_forks.forked(lambda: time.sleep(60) or "late", 0.01) == mutants_forks.TIMED_OUT
    assert mutants_forks.forked(lambda: next(n for n in itertools.count() if n < 0), 0.1) == mutants_forks.TIMED_OUT
    with pytest.raises(RuntimeError, match="without an answer"):
        mutants_forks.forked(lambda: os._exit(1), 5)


@pytest.mark.slow
def test_a_weak_test_leaves_survivors_a_better_one_kills_them_and_nothing_is_tried_twice(tmp_path: Path) -> None:
    for folder in ("docs/results", "bench/campaigns", "code_that_decides", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "code_that_decides/module.py").write_text(CODE)
    (tmp_path / "tests/test_module.py").write_text(TESTS)
    (tmp_path / "bench/campaigns/mutants.toml").write_text("")
    subprocess.run(("git", "init", "-q"), cwd=tmp_path, check=True)

    commit = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all")
    subprocess.run(("git", "add", "-A"), cwd=tmp_path, check=True)
    subprocess.run(commit, cwd=tmp_path, check=True)
    weak = _work(tmp_path)
    text = next((tmp_path / "docs/results").glob("mutants-*.md")).read_text()
    described = subprocess.check_output(("git", "describe", "--always"), cwd=tmp_path, text=True).strip()
    assert f"; commit {described}; " in text
    assert weak.returncode == 1 and 'value >= LIMITS["low"]' in weak.stdout and "1 of 1 modules changed" in weak.stdout
    assert (tmp_path / "code_that_decides/module.py").read_text() == CODE
    again = _work(tmp_path)
    assert again.returncode == 1 and "0 of 1 modules changed" in again.stdout

    sample = _work(tmp_path, 1)
    (page,) = (tmp_path / "docs/results").glob("mutants-sample-*.md")
    assert "of 1 killed" in sample.stdout and "mutants.py --sample 1` tried 1 of" in page.read_text()
    page.unlink()

    (tmp_path / "tests/test_module.py").write_text(BETTER_TESTS)
    better = _work(tmp_path)
    assert better.returncode == 0 and "100.0% killed" in better.stdout, better.stdout
    assert "survived" not in better.stdout
    (tmp_path / "docs/results/mutants.json").unlink()
    outcomes = (tmp_path / ".kdv/mutants/code_that_decides.module.py.jsonl").read_text()
    assert _work(tmp_path).returncode == 0
    assert (tmp_path / ".kdv/mutants/code_that_decides.module.py.jsonl").read_text() == outcomes, "as after Ctrl-C"

    (tmp_path / "tests/test_module.py").write_text(TESTS + "\ndef test_no():\n    assert False\n")
    broken = _work(tmp_path)
    assert broken.returncode == 1 and "fails without any mutant" in broken.stderr


def _work(root: Path, *sample: int) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-c", WORK, str(root), *map(str, sample))
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

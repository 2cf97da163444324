"""Every table of a concept is whole: it names all members of the concept, or says why it does not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from delivery_verifier.contract.guarantees import FAULT_CLASSES, GUARANTEES, UNCLASSED
from delivery_verifier.contract.rules import _WITHOUT, PROMISES, RULES
from delivery_verifier.contract.strength import COPIES, LOSSES
from delivery_verifier.judgement.canary import EXPECTED
from delivery_verifier.model.anomalies import KINDS, SECONDARY, TRANSACTIONAL, Anomaly, also_column, column, subset
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import DISTURBANCES, INJECTED, ON_TOPICS, DisturbanceKind
from delivery_verifier.model.scenario import Claim
from delivery_verifier.store.books import COUNTS

ROOT = Path(__file__).parents[3]
SOURCES = ("plugins", "spark_jobs", "expectations", "docs/generate", "dags")
NAMES = {anomaly.value for anomaly in Anomaly}
COLUMNS = {column(anomaly): anomaly.value for anomaly in Anomaly}
SMALLEST = 2
"""So many anomalies in one literal make it a table."""


def anomaly_in(node: ast.expr | None) -> str | None:
    """The anomaly that an element of a literal names: `Anomaly.LOST`, `"LOST"` or its column `"lost"`."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Anomaly":
        return node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if node.value in NAMES else COLUMNS.get(node.value)
    return None


def elements(node: ast.AST) -> list[ast.expr | None]:
    """The keys of a dict, the elements of another literal, the alternatives of `Literal[...]` among them."""
    if isinstance(node, ast.Dict):
        return list(node.keys)
    return list(node.elts) if isinstance(node, ast.Tuple | ast.List | ast.Set) else []


def declared(tree: ast.AST) -> set[ast.AST]:
    """Everything inside a call of `subset` with a reason."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "subset")
    reasoned = (call for call in calls if isinstance(call.args[0], ast.Constant) and str(call.args[0].value).strip())
    return {node for call in reasoned for node in ast.walk(call.args[1])}


def undeclared(source: str) -> Iterator[tuple[int, set[str]]]:
    """The line of every table of anomalies that is neither whole nor declared, and what it lacks."""
    tree = ast.parse(source)
    excused = declared(tree)
    for node in ast.walk(tree):
        named = {name for name in map(anomaly_in, elements(node)) if name}
        if len(named) >= SMALLEST and named != NAMES and node not in excused:
            yield getattr(node, "lineno", 0), NAMES - named


def test_every_table_of_anomalies_is_whole_or_says_why_not() -> None:
    files = [file for folder in SOURCES for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 150, "the sources are not where this test looks for them"
    gaps = [f"{file.relative_to(ROOT)}:{line}" for file in files for line, _ in undeclared(file.read_text())]
    assert not gaps, f"name every anomaly, derive the table from KINDS, or wrap it in subset(reason, ...): {gaps}"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("SHOWN = ('lost', 'duplicated')", [1]),
        ("SHOWN = {Anomaly.LOST: 1,\n Anomaly.TORN: 2}", [1]),
        ("if kind in ('LOST', 'TORN'): pass", [1]),
        ("SHOWN = subset('', ('lost', 'duplicated'))", [1]),
        ("SHOWN = subset('these lose', ('lost', 'duplicated'))", []),
        ("SHOWN = subset('these lose', {Anomaly.LOST: 1, Anomaly.TORN: 2})", []),
        (f"SHOWN = {[anomaly.value for anomaly in Anomaly]}", []),
        ("SHOWN = ('lost', 'found')", []),
    ],
)
def test_a_table_with_a_gap_is_seen(source: str, lines: list[int]) -> None:
    assert [line for line, _ in undeclared(source)] == lines


def test_a_subset_without_a_reason_is_no_subset() -> None:
    assert subset("these are lost", (Anomaly.LOST,)) == (Anomaly.LOST,)
    with pytest.raises(ValueError, match="gives no reason"):
        subset(" ", (Anomaly.LOST,))


def test_every_anomaly_has_all_its_words() -> None:
    assert list(KINDS) == list(Anomaly), "in order of precedence"
    for kind in KINDS.values():
        assert all([kind.definition, kind.name, kind.participle, kind.record_that_is])
        assert kind.share_of in COUNTS, "an anomaly is a share of a column of the books"
    assert sorted(kind.telling for kind in KINDS.values()) == list(range(1, len(Anomaly) + 1))


def test_what_an_anomaly_is_permitted_with_is_what_its_rules_say() -> None:
    assert {rule.anomaly for rule in RULES} == {
        anomaly for anomaly, kind in KINDS.items() if kind.permitted_with != "nothing"
    }
    assert set(PROMISES) == set(Anomaly)
    assert set(_WITHOUT) == set(TRANSACTIONAL) <= set(LOSSES) == {Anomaly.LOST, Anomaly.MISPLACED, *TRANSACTIONAL}
    assert not set(LOSSES) & set(COPIES)


def test_the_canary_and_the_books_have_a_column_for_every_anomaly_and_for_what_may_be_hidden() -> None:
    wanted = {*map(column, Anomaly), *map(also_column, SECONDARY)}
    assert wanted <= set(COUNTS)
    assert wanted <= set(EXPECTED)


def test_every_claim_has_its_words_and_every_one_but_the_contract_forbids_something() -> None:
    assert list(CLAIMS) == list(get_args(Claim))
    assert all(kind.meaning for kind in CLAIMS.values())
    assert {claim for claim, kind in CLAIMS.items() if not kind.forbids} == {"contract"}
    assert set(GUARANTEES) == set(CLAIMS) - {"contract"}


def test_every_kind_of_disturbance_has_its_words_and_a_class_of_fault_or_a_reason_for_none() -> None:
    assert list(DISTURBANCES) == list(get_args(DisturbanceKind))
    assert all(kind.meaning for kind in DISTURBANCES.values())
    classed = {kind for fault_class in FAULT_CLASSES for kind in fault_class.kinds}
    assert classed | set(UNCLASSED) == set(DISTURBANCES)
    assert not classed & set(UNCLASSED)
    assert len({fault_class.name for fault_class in FAULT_CLASSES}) == len(FAULT_CLASSES)


def test_every_action_counts_as_what_no_observer_sees_and_is_observed_as_what_one_does() -> None:
    counted = {kind for act in ACTS.values() for kind in act.counts_as}
    assert counted == INJECTED - {"isr_power_loss"}, "that one follows from the losses of power of several brokers"
    assert not {kind for act in ACTS.values() for kind in act.observed_as} & INJECTED
    assert set(ON_TOPICS) >= {"leader_change", "topic_altered"}
    assert not ON_TOPICS & {"power_loss", "broker_crash"}

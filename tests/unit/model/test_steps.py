"""Tests of the declared steps: every table that is derived from them is complete and agrees with the documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support.patience import PATIENCE_S

from delivery_verifier.model import steps
from delivery_verifier.model.steps import DECLARED

DOCUMENT = Path(__file__).parents[3] / "docs/reference/run-directory.md"
OWN_PARTS = {"read_topic"}
"""The steps that have a manifest but are no Airflow tasks. read_topic is the first half of reconcile."""


def test_the_names_are_those_of_the_declared_steps_in_their_order() -> None:
    assert tuple(step.name for step in DECLARED if step.name not in OWN_PARTS) == steps.STEPS
    assert set(steps.STEPS) | OWN_PARTS == steps.MANIFESTS == set(steps.VOIDS)


def test_every_task_has_a_timeout() -> None:
    assert set(steps.TIMEOUTS) == set(steps.STEPS)


def test_the_gate_waits_for_all_but_itself_and_the_end_of_the_cluster() -> None:
    assert tuple(step for step in steps.STEPS if step not in (steps.GATE, "stop_cluster")) == steps.BEFORE_GATE


def test_a_verdict_is_read_off_these_steps() -> None:
    assert steps.EVIDENCE == ("plan", "produce", "inject_fault", "settle", "reconcile", "validate")


def test_a_repeatable_step_voids_all_repeatable_steps_behind_it_and_the_verdict_first() -> None:
    repeatable = [step.name for step in DECLARED if step.repeatable]
    assert repeatable == ["read_topic", "reconcile", "validate", "conclude"]
    for index, name in enumerate(repeatable):
        assert steps.VOIDS[name] == tuple(reversed(repeatable[index + 1 :])), name
    assert not any(step.voids for step in DECLARED if not step.repeatable)


def test_the_files_and_their_writers_are_those_that_the_documentation_names() -> None:
    """The table of the document leaves out the manifest produce.json, because the document describes all manifests in
    one place."""
    rows = re.findall(
        r"^\| (`\S+`) \| ([^|]+) \|", DOCUMENT.read_text().split("## Version of the format")[0], flags=re.MULTILINE
    )
    documented: dict[str, set[str]] = {}
    for name, writers in rows:
        file = name.strip("`").split("/")[0]
        halves = writers.strip().replace("reconcile, first half (`read_topic.json`)", "read_topic")
        documented.setdefault(file, set()).update(halves.split(", "))
    declared: dict[str, set[str]] = {}
    for step in DECLARED:
        for output in step.writes:
            declared.setdefault(output.name, set()).add(step.name)
    assert declared.pop("produce.json") == {"produce"}
    assert declared == documented
    assert set(steps.FILES) == {*documented, "produce.json"}
    assert all(steps.FILES.values())


def test_the_declaration_imports_nothing_heavy() -> None:
    """Airflow's DAG processor imports the declaration every few seconds."""
    program = (
        "import sys, delivery_verifier.model.steps, delivery_verifier.model.progress; "
        "print([name for name in ('airflow', 'pandas', 'pyarrow', 'pyspark') if name in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert answer.stdout.strip() == "[]"

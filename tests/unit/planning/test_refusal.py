"""Tests of how quickly bad input is refused: with all errors at once, before anything heavy is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from support.patience import PATIENCE_S

from delivery_verifier.planning import subject
from delivery_verifier.planning.request import FIELDS

BAD: dict[str, Any] = {
    "profile": "own",
    "producer_config": "key.serializer=x\nack=1\nlinger.ms=abc\nssl.key.password=hunter2\n",
    "topic_overrides": "min.isr=1",
    "records": -5,
    "fault": "meteor",
}
HEAVY = {"airflow", "bokeh", "duckdb", "great_expectations", "kafka", "pandas", "pyarrow", "pyspark"}
ROOMS = {"run", "load.producer", "load.pool", "cluster.handle", "faults", "applications"}
"""The parts of the library that drive a cluster."""
CPU_S = 5.0
"""The most CPU time, in seconds, that a new process may take to refuse bad input. It took 0.8 s when this was written.
CPU time hardly depends on what else the host does."""
PROGRAM = """
import json, sys, time
from delivery_verifier.planning.build import scenario_from_params
try:
    scenario_from_params(json.loads(sys.argv[1]), "r")
except ValueError as error:
    print(json.dumps([error.messages, sorted(sys.modules), time.process_time()]))
"""


def refused(params: dict[str, Any]) -> tuple[list[str], set[str], float]:
    """Returns the errors, the imported modules and the CPU time in seconds of a new process that refuses `params`."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(params)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    messages, modules, seconds = json.loads(ended.stdout)
    return messages, set(modules), seconds


def test_bad_input_is_refused_at_once_with_all_errors_and_without_anything_heavy() -> None:
    messages, modules, seconds = refused(BAD)
    starts = ("records is -5", "fault is 'meteor'", "producer_config has values for ssl.key.password", "ack is no")
    assert all(any(message.startswith(start) for message in messages) for start in (*starts, "linger.ms is", "min.isr"))
    assert len(messages) == 6
    assert {module.partition(".")[0] for module in modules} & HEAVY == set()
    library = {module.removeprefix("delivery_verifier.") for module in modules}
    assert library & ROOMS == set() and "planning.build" in library
    assert seconds < CPU_S


def test_every_field_that_takes_text_or_a_number_is_checked_before_anything_heavy_is_imported() -> None:
    """No field hides the error of another."""
    wrong = {name: "?" for name in FIELDS if name not in ("own_profile", "owner", "scenario")}
    texts = {name: f"{name}.x=1" for name in subject.TEXTS}
    messages, modules, _ = refused(wrong | texts)
    assert [name for name in wrong if not any(name in message for message in messages)] == []
    assert {module.partition(".")[0] for module in modules} & HEAVY == set()

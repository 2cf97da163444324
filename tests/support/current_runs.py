"""Stored runs that are brought to the current format: they get whatever a run of this format has besides.

The added data say that nothing was wrong. The run must then be reconciled and validated anew.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.judgement.canary import FORGOTTEN
from delivery_verifier.load.forgetful import send_and_forget
from delivery_verifier.model.history import TRANSACTION_STATE, Observation, read_observations
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import read_offsets
from delivery_verifier.run.sealing import seal_ledgers
from delivery_verifier.store.ledger import MISCOUNTED, outcomes_key
from delivery_verifier.store.replicas import REPLICAS
from delivery_verifier.store.run_directory import RunDirectory
from delivery_verifier.store.table import arrow_schema
from support.evidence import beat, beats
from support.older_runs import older_run
from support.sealed_runs import relink
from support.stored_runs import reseal, with_scenario


def current_run(name: str, folder: Path) -> RunDirectory:
    """Returns a copy of the stored run `name` that is of the current format, below `folder`. A test may alter it."""
    return RunDirectory(shutil.copytree(_current(name).path, folder / name))


@cache
def _current(name: str) -> RunDirectory:
    """Brings the stored run `name` to the current format, once per process: its canary needs a real producer."""
    folder = Path(tempfile.mkdtemp(prefix="kdv-current-run-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run = older_run(name, folder)
    with_scenario(run, two_producers_in_the_canary)
    reseal(run, "produce", counted(run, "produce"))
    reseal(run, "inject_fault")
    reseal(run, "settle", counted(run, "settle"), observations=msgspec.to_builtins(with_heartbeats(run)))
    forget_records(run)
    with_replicas(run, agreeing_replicas(run))
    return run


def counted(run: RunDirectory, step: str) -> dict[str, int]:
    """Returns what the producers whose ledgers `step` wrote would have counted."""
    names = [name for name in run.manifest(step).files if name.startswith("ledger/")]
    rows = [row for name in names for row in pq.read_table(run.path / name).to_pylist()]
    producers = {f"{row['arm']}/{row['producer']}/{row['session']}" for row in rows}
    reports = Counter(
        (f"{row['arm']}/{row['producer']}/{row['session']}", row["outcome"])
        for row in rows
        if row["made_by"] == "client"
    )
    return {outcomes_key(kind, name): reports[name, kind] for name in producers for kind in (*Outcome, MISCOUNTED)}


def two_producers_in_the_canary(scenario: Scenario) -> Scenario:
    """Returns the scenario with a second producer in its canary."""
    arms = tuple(msgspec.structs.replace(arm, producers=2) if arm is scenario.canary else arm for arm in scenario.arms)
    return msgspec.structs.replace(scenario, arms=arms)


def forget_records(run: RunDirectory) -> None:
    """Does what the step `settle` does for the canary's real producer, and adds its ledger to those of the step."""
    before = run.manifest("settle")
    with run.writing("settle") as output:
        for name in before.files:
            (output.staging / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(run.path / name, output.staging / name)
        output.counts |= before.counts
        workspace = run.path.parent / f"workspace-{time.monotonic_ns()}"
        seal_ledgers([send_and_forget(run.read_scenario(), workspace, FORGOTTEN)], output)
    relink(run)


def with_heartbeats(run: RunDirectory) -> list[Observation]:
    """Returns the observations of the run, with a heartbeat per second and a state of the coordinators' topic."""
    seen = read_observations((run.path / "observations.json").read_bytes())
    end_us = read_offsets((run.path / "offsets.json").read_bytes()).taken_at_us
    begin_us = min(observation.at_us for observation in seen)
    known = [*seen, *beats(begin_us, end_us), beat(end_us)]
    coordinators = next(observation for observation in seen if observation.kind == "partition")
    coordinators = msgspec.structs.replace(coordinators, topic=TRANSACTION_STATE)
    return sorted([coordinators, *known], key=lambda observation: observation.at_us)


def agreeing_replicas(run: RunDirectory) -> pa.Table:
    """Returns a table of three replicas of every partition of the run, which all agree."""
    parts = json.loads((run.path / "offsets.json").read_bytes())["partitions"]
    rows = [
        {"arm": part["arm"], "partition": part["partition"], "broker": broker, "digest": "d", "read_until": part["end"]}
        | {"batches": 1, "epochs": [0], "epoch_starts": [0]}
        for part in parts
        for broker in (1, 2, 3)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(REPLICAS))


def with_replicas(run: RunDirectory, table: pa.Table | None) -> None:
    """Replaces the table of the replicas, or removes it if `table` is None. Seals the step `settle` again."""
    before = run.manifest("settle")
    (run.path / REPLICAS.file).unlink(missing_ok=True)
    with run.writing("settle") as output:
        for name in set(before.files) - {REPLICAS.file}:
            (output.staging / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(run.path / name, output.staging / name)
        output.counts |= before.counts
        if table is not None:
            pq.write_table(table, output.staging / REPLICAS.file)
    relink(run)

"""Completes the verdict of a made-up run with advice, as the step `conclude` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.advice.advise import advise
from delivery_verifier.advice.doubts import with_remedies
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.model.history import Injection, Observation, read_injections, read_observations
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.store.books import Books
from delivery_verifier.store.run_directory import RunDirectory
from delivery_verifier.store.witness import Witness


def advised(path: Path, verdict: RunVerdict) -> RunVerdict:
    """Returns the verdict of the made-up run in `path` with the advice that follows from its files."""
    cases = sorted((path / "anomalies").glob("*.parquet"))
    evidence = evidence_for_advice(
        RunDirectory(path).read_scenario(),
        read_injections((path / "injections.json").read_bytes()),
        read_observations((path / "observations.json").read_bytes()),
        cases=pa.concat_tables(map(pq.read_table, cases)) if cases else None,
    )
    return advise(evidence, with_remedies(verdict), path)


def evidence_for_advice(
    scenario: Scenario,
    injections: Sequence[Injection] = (),
    observations: Sequence[Observation] = (),
    cases: pa.Table | None = None,
    witness: Witness | None = None,
    taken_at_us: int = 0,
) -> Evidence:
    """Returns evidence of which only that is there on which advice rests."""
    return Evidence(
        scenario=scenario,
        injections=list(injections),
        observations=list(observations),
        offsets=Offsets(bootstrap_servers="", taken_at_us=taken_at_us, partitions=[]),
        books=Books.from_tables({}, applied=bool(scenario.applied)),
        canary_expected={},
        replicas=pa.table({}),
        strangers={},
        cases=cases,
        witness=witness,
    )

"""The evidence of one run: everything a verdict may be read off, loaded from a finished run directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.contract.disturbances import concerning, disturbances
from delivery_verifier.contract.rulings import Ruling, effective
from delivery_verifier.contract.settings import Settings
from delivery_verifier.judgement.attribution import COLUMNS, CasesByInjection, attribute_cases, kinds_sent_afterwards
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import (
    Disturbance,
    Injection,
    Observation,
    Offsets,
    read_injections,
    read_observations,
    read_offsets,
)
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.model.verdict import Exposure
from delivery_verifier.store.books import Books
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory

EARLY = "ended_early/"
"""Prefix of the notes in produce.json that name a producer whose load a fatal client error ended."""


class Transactions(NamedTuple):
    """How many were begun, and how many of them the client said are committed, or aborted. Of the others nobody
    knows."""

    begun: int
    committed: int
    aborted: int


@dataclass(frozen=True)
class Evidence:
    """Pure data. `canary_expected` maps a books column to the total that was planted; `ended_early` maps
    `<arm>/<producer>/<session>` to the fatal client error that ended that producer's load; `transactions` an arm that
    writes them to what its producers counted."""

    scenario: Scenario
    injections: list[Injection]
    observations: list[Observation]
    offsets: Offsets
    books: Books
    canary_expected: Mapping[str, int]
    ended_early: Mapping[str, str] = field(default_factory=dict)
    transactions: Mapping[str, Transactions] = field(default_factory=dict)
    cases: pa.Table | None = None
    """What bites are read off: those rows of anomalies/ that were written down; None if there is no such file."""

    @classmethod
    def load(cls, run_dir: Path) -> Evidence:
        """Reads a run directory whose reconciliation finished. Raises IncompleteRun if anything is missing."""
        from delivery_verifier.judgement import canary

        run = RunDirectory(run_dir)
        run.require("produce", "inject_fault", "settle", "reconcile")
        scenario = run.read_scenario()
        try:
            injections = read_injections(_text(run.path / "injections.json"))
            observations = read_observations(_text(run.path / "observations.json"))
            offsets = read_offsets(_text(run.path / "offsets.json"))
            books = Books.read(run.path)
            cases = _cases(run.path / "anomalies")
        except (msgspec.MsgspecError, pa.ArrowException) as error:
            raise IncompleteRun(f"{run.path} is damaged: {error}") from None
        notes = run.manifest("produce").notes.items()
        ended_early = {name.removeprefix(EARLY): error for name, error in notes if name.startswith(EARLY)}
        transactions = _transactions(scenario, run.manifest("produce").counts)
        planted = canary.expected(scenario)
        return cls(scenario, injections, observations, offsets, books, planted, ended_early, transactions, cases)

    @cached_property
    def disturbances(self) -> list[Disturbance]:
        """All that disturbed the cluster, in order of time."""
        return disturbances(self.observations, self.injections)

    @cached_property
    def bites(self) -> dict[str, CasesByInjection] | None:
        """Per arm the injections that hurt it; None where no cases are at hand."""
        return None if self.cases is None else attribute_cases(self.cases, self._biting)

    @cached_property
    def afterwards(self) -> dict[str, set[str]]:
        """Per arm the anomalies of records that were sent after all losses of power; none where no cases are at
        hand."""
        cuts = [it for it in self._biting if it.action in ACTS and "power_loss" in ACTS[it.action].counts_as]
        return {} if self.cases is None else kinds_sent_afterwards(self.cases, cuts)

    @property
    def _biting(self) -> list[Injection]:
        return [injection for injection in self.injections if injection.bit]

    def concerning(self, arm: Arm) -> list[Disturbance]:
        """What disturbed the arm: on its topic, or a broker process."""
        return concerning(arm.topic_name, self.disturbances)

    def rulings(self, arm: Arm) -> dict[Anomaly, Ruling]:
        """The contract of the arm under what was observed, tightened by its claim."""
        return effective(Settings.of_arm(self.scenario, arm), arm.claim, self.concerning(arm))

    def exposure(self, arm: Arm) -> list[Exposure]:
        """How much of the arm each injection could have hurt; none where the reconciliation did not say."""
        rows = self.books.rows("exposure", arm=arm.name)
        if not {"injection", "reported", "outstanding"} <= set(rows.column_names):
            return []
        cycles = {injection.id: injection.cycle for injection in self.injections}
        return [
            Exposure(
                injection=row["injection"],
                reported=row["reported"] or 0,
                outstanding=row["outstanding"] or 0,
                cycle=cycles.get(row["injection"], 0),
            )
            for row in rows.sort_by("injection").to_pylist()
        ]


def _transactions(scenario: Scenario, counts: Mapping[str, int]) -> dict[str, Transactions]:
    def total(what: str, arm: str) -> int:
        return sum(count for name, count in counts.items() if name.startswith(f"transactions_{what}/{arm}/"))

    arms = (arm.name for arm in scenario.loaded if arm.transactional_id)
    return {arm: Transactions(*(total(what, arm) for what in Transactions._fields)) for arm in arms}


def _cases(folder: Path) -> pa.Table | None:
    files = sorted(folder.glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file, columns=list(COLUMNS)) for file in files]) if files else None


def _text(file: Path) -> bytes:
    if not file.is_file():
        raise IncompleteRun(f"{file} is missing: what was done to the cluster is unknown")
    return file.read_bytes()

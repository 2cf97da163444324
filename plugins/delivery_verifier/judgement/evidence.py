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

from delivery_verifier.contract.disturbances import disturbances, disturbances_of_topic
from delivery_verifier.contract.rulings import Ruling, effective
from delivery_verifier.contract.settings import Settings
from delivery_verifier.judgement.attribution import COLUMNS, CasesByInjection, attribute_cases, kinds_sent_afterwards
from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column
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


class TransactionCounts(NamedTuple):
    """How many transactions were begun, and how many of these the client said are committed, or aborted.

    How the others ended is unknown.
    """

    begun: int
    committed: int
    aborted: int


@dataclass(frozen=True)
class Evidence:
    """What a verdict may be read off: pure data, and what follows from the data.

    `canary_expected`: books column -> total that was planted. `ended_early`: `<arm>/<producer>/<session>` -> the fatal
    client error that ended that producer's load. `transactions`: arm that writes transactions -> what its producers
    counted. `cases`: those rows of anomalies/ that were written down; None if there is no such file.
    """

    scenario: Scenario
    injections: list[Injection]
    observations: list[Observation]
    offsets: Offsets
    books: Books
    canary_expected: Mapping[str, int]
    ended_early: Mapping[str, str] = field(default_factory=dict)
    transactions: Mapping[str, TransactionCounts] = field(default_factory=dict)
    cases: pa.Table | None = None

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
        planted = canary.expected_counts(scenario)
        return cls(scenario, injections, observations, offsets, books, planted, ended_early, transactions, cases)

    @cached_property
    def disturbances(self) -> list[Disturbance]:
        """All that disturbed the cluster, in order of time."""
        return disturbances(self.observations, self.injections)

    @cached_property
    def arms(self) -> tuple[ArmEvidence, ...]:
        """The evidence of every arm, in the scenario's order."""
        return tuple(ArmEvidence(self, arm) for arm in self.scenario.arms)

    @property
    def loaded(self) -> tuple[ArmEvidence, ...]:
        """The evidence of the arms that carry load: subjects and controls."""
        return tuple(arm for arm in self.arms if not arm.is_canary)

    @property
    def canary(self) -> ArmEvidence:
        """The evidence of the canary."""
        return next(arm for arm in self.arms if arm.is_canary)

    @cached_property
    def cases_by_injection(self) -> dict[str, CasesByInjection] | None:
        """Per arm the injections that hurt it; None if no cases are at hand."""
        return None if self.cases is None else attribute_cases(self.cases, self.biting)

    @cached_property
    def kinds_sent_afterwards(self) -> dict[str, set[str]]:
        """Per arm the anomalies of records that were sent after all losses of power; empty if no cases are at hand."""
        power_losses = [injection for injection in self.biting if _is_power_loss(injection)]
        return {} if self.cases is None else kinds_sent_afterwards(self.cases, power_losses)

    @property
    def biting(self) -> list[Injection]:
        """The injections that bit, with proof."""
        return [injection for injection in self.injections if injection.bit]


@dataclass(frozen=True, eq=False)
class ArmEvidence:
    """The evidence of one arm. Each property is computed once, when it is first read.

    `run` is the evidence of the whole run, `spec` the arm as the scenario describes it.
    """

    run: Evidence
    spec: Arm

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.spec.name

    @property
    def is_canary(self) -> bool:
        """Whether this is the canary, which carries no load, and to which no contract applies."""
        return self.spec.role == "canary"

    @cached_property
    def disturbances(self) -> list[Disturbance]:
        """What disturbed the arm, in order of time: on its topic, or a broker process."""
        return disturbances_of_topic(self.spec.topic_name, self.run.disturbances)

    @cached_property
    def rulings(self) -> dict[Anomaly, Ruling]:
        """The contract of the arm under the disturbances that were observed, tightened by its claim."""
        return effective(Settings.of_arm(self.run.scenario, self.spec), self.spec.claim, self.disturbances)

    @cached_property
    def totals(self) -> dict[str, int]:
        """The arm's counts in books/producers, each summed over its rows."""
        return self.run.books.totals(self.name)

    @cached_property
    def exposure(self) -> list[Exposure]:
        """How much of the arm each injection could have hurt; empty if the reconciliation did not say."""
        rows = self.run.books.rows("exposure", arm=self.name)
        if not {"injection", "reported", "outstanding"} <= set(rows.column_names):
            return []
        cycles = {injection.id: injection.cycle for injection in self.run.injections}
        return [
            Exposure(
                injection=row["injection"],
                reported=row["reported"] or 0,
                outstanding=row["outstanding"] or 0,
                cycle=cycles.get(row["injection"], 0),
            )
            for row in rows.sort_by("injection").to_pylist()
        ]

    @property
    def transactions(self) -> TransactionCounts | None:
        """What the arm's producers counted; None if the arm writes no transactions."""
        return self.run.transactions.get(self.name)

    @property
    def cases_by_injection(self) -> CasesByInjection | None:
        """The injections that hurt the arm; None for the canary, and if no cases are at hand."""
        by_arm = self.run.cases_by_injection
        return None if by_arm is None or self.is_canary else by_arm.get(self.name, {})

    @property
    def kinds_sent_afterwards(self) -> set[str]:
        """The anomalies of records of the arm that were sent after all losses of power."""
        return self.run.kinds_sent_afterwards.get(self.name, set())

    def cases(self, anomaly: Anomaly) -> tuple[int, int]:
        """(cases of this kind, cases hidden by a kind of higher precedence) in the arm."""
        return case_counts(self.totals, anomaly)


def case_counts(totals: Mapping[str, int], anomaly: Anomaly) -> tuple[int, int]:
    """(cases of this kind, cases hidden by a kind of higher precedence) in `totals`, which are counts by column."""
    also = totals.get(also_column(anomaly), 0) if anomaly in SECONDARY else 0
    return totals.get(column(anomaly), 0), also


def _is_power_loss(injection: Injection) -> bool:
    return injection.action in ACTS and "power_loss" in ACTS[injection.action].counts_as


def _transactions(scenario: Scenario, counts: Mapping[str, int]) -> dict[str, TransactionCounts]:
    """Sums the counts `transactions_<begun | committed | aborted>/<arm>/...` of produce.json per arm."""

    def total(field_name: str, arm: str) -> int:
        prefix = f"transactions_{field_name}/{arm}/"
        return sum(count for name, count in counts.items() if name.startswith(prefix))

    arms = [arm.name for arm in scenario.loaded if arm.transactional_id]
    return {arm: TransactionCounts(*(total(name, arm) for name in TransactionCounts._fields)) for arm in arms}


def _cases(folder: Path) -> pa.Table | None:
    files = sorted(folder.glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file, columns=list(COLUMNS)) for file in files]) if files else None


def _text(file: Path) -> bytes:
    if not file.is_file():
        raise IncompleteRun(f"{file} is missing: what was done to the cluster is unknown")
    return file.read_bytes()

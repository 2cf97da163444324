"""The evidence of one run: everything from which a verdict may be derived, loaded from the files of a run directory."""

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
from delivery_verifier.store.books import Books, count_strangers
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory

EARLY = "ended_early/"
"""The prefix of some notes in produce.json. Each of them names a producer whose load a fatal client error ended."""


class TransactionCounts(NamedTuple):
    """How many transactions were begun, and how many of these transactions the client reported as committed or aborted.

    How the remaining transactions ended is unknown.
    """

    begun: int
    committed: int
    aborted: int


@dataclass(frozen=True)
class Evidence:
    """The evidence of one run: the data from which a verdict may be derived, and properties that follow from the data.

    `books`: the tables of counts that the step `reconcile` wrote. `canary_expected`: by column of the books, the total
    that the canary must show. `ended_early`: by producer, as `<arm>/...`, the fatal client error that ended its load.
    `transactions`: by arm that writes transactions, the counts of its producers. `cases`: the records that show
    anomalies, a row for each up to a bound, from anomalies/; None if the run has no such file. `strangers`: by arm, how
    many records in its topic another client wrote; empty if a version of the verifier reconciled that did not count.
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
    strangers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, run_dir: Path) -> Evidence:
        """Returns the evidence in a run directory. Raises IncompleteRun if the step `reconcile`, or a step before it,
        did not finish, or if a file is missing or damaged."""
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
        strangers = count_strangers(run, scenario.arm_names)
        recorded = (injections, observations, offsets, books, planted, ended_early, transactions, cases, strangers)
        return cls(scenario, *recorded)

    @cached_property
    def disturbances(self) -> list[Disturbance]:
        """All disturbances of the cluster, in order of time."""
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
        """For each arm, the injections that hurt it, by anomaly (see `attribution`); None if `cases` is None."""
        return None if self.cases is None else attribute_cases(self.cases, self.biting)

    @cached_property
    def kinds_sent_afterwards(self) -> dict[str, set[str]]:
        """The anomalies, by arm, of records sent after all injected losses of power; empty if `cases` is None."""
        power_losses = [injection for injection in self.biting if _is_power_loss(injection)]
        return {} if self.cases is None else kinds_sent_afterwards(self.cases, power_losses)

    @property
    def biting(self) -> list[Injection]:
        """The injections that are proven to have bitten."""
        return [injection for injection in self.injections if injection.bit]


@dataclass(frozen=True, eq=False)
class ArmEvidence:
    """The evidence of one arm. A cached property is computed when it is first read.

    `run` is the evidence of the whole run. `spec` is the arm as the scenario describes it.
    """

    run: Evidence
    spec: Arm

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.spec.name

    @property
    def is_canary(self) -> bool:
        """Whether the arm is the canary. The canary carries no load, and no contract applies to the canary."""
        return self.spec.role == "canary"

    @cached_property
    def disturbances(self) -> list[Disturbance]:
        """The disturbances of the arm's topic and of broker processes, in order of time."""
        return disturbances_of_topic(self.spec.topic_name, self.run.disturbances)

    @cached_property
    def rulings(self) -> dict[Anomaly, Ruling]:
        """What contract and claim rule on each anomaly, given the arm's settings and the observed disturbances."""
        return effective(Settings.of_arm(self.run.scenario, self.spec), self.spec.claim, self.disturbances)

    @cached_property
    def totals(self) -> dict[str, int]:
        """The arm's counts in the table books/producers: for every column of counts, the sum over the arm's rows."""
        return self.run.books.totals(self.name)

    @cached_property
    def exposure(self) -> list[Exposure]:
        """How many records of the arm each injection could have hurt; empty if the books lack the columns for this."""
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
        """How many transactions the arm's producers began and ended; None if the arm writes no transactions."""
        return self.run.transactions.get(self.name)

    @property
    def cases_by_injection(self) -> CasesByInjection | None:
        """The injections that hurt the arm, by anomaly; None for the canary, or if the run's `cases` is None."""
        by_arm = self.run.cases_by_injection
        return None if by_arm is None or self.is_canary else by_arm.get(self.name, {})

    @property
    def kinds_sent_afterwards(self) -> set[str]:
        """The anomalies of those records of the arm that were sent after all injected losses of power were over."""
        return self.run.kinds_sent_afterwards.get(self.name, set())

    def cases(self, anomaly: Anomaly) -> tuple[int, int]:
        """Returns two counts of the arm's records that show `anomaly`. `case_counts` explains both."""
        return case_counts(self.totals, anomaly)


def case_counts(totals: Mapping[str, int], anomaly: Anomaly) -> tuple[int, int]:
    """Returns how many records are cases of `anomaly`, and how many more show it but are cases of another anomaly.

    A record is a case of the first anomaly (in the order of `Anomaly`) that it shows. `totals` are counts by column of
    the books.
    """
    also = totals.get(also_column(anomaly), 0) if anomaly in SECONDARY else 0
    return totals.get(column(anomaly), 0), also


def _is_power_loss(injection: Injection) -> bool:
    return injection.action in ACTS and "power_loss" in ACTS[injection.action].counts_as


def _transactions(scenario: Scenario, counts: Mapping[str, int]) -> dict[str, TransactionCounts]:
    """Returns the transactions per arm: the sums of `transactions_<begun | committed | aborted>/<arm>/...` in `counts`.

    `counts` are the counts of produce.json.
    """

    def total(field_name: str, arm: str) -> int:
        prefix = f"transactions_{field_name}/{arm}/"
        return sum(count for name, count in counts.items() if name.startswith(prefix))

    arms = [arm.name for arm in scenario.loaded if arm.transactional_id]
    return {arm: TransactionCounts(*(total(name, arm) for name in TransactionCounts._fields)) for arm in arms}


def _cases(folder: Path) -> pa.Table | None:
    """Returns the rows of anomalies/; None if the folder has no file."""
    files = sorted(folder.glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file, columns=list(COLUMNS)) for file in files]) if files else None


def _text(file: Path) -> bytes:
    if not file.is_file():
        raise IncompleteRun(f"{file} is missing: what was done to the cluster is unknown")
    return file.read_bytes()

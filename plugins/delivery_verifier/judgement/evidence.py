"""The evidence of one run: everything from which a verdict may be derived, loaded from the files of a run directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from delivery_verifier.contract.disturbances import coordinator_partitions, disturbances, disturbances_of_arm
from delivery_verifier.contract.elections import Elections, elections
from delivery_verifier.contract.rulings import Ruling, effective, refuses_late
from delivery_verifier.contract.settings import Settings
from delivery_verifier.judgement import audits
from delivery_verifier.judgement.attribution import (
    CasesByInjection,
    attribute_cases,
    is_power_loss,
    kinds_sent_afterwards,
)
from delivery_verifier.judgement.cases import read_case_files
from delivery_verifier.judgement.transaction_counts import TransactionCounts, transactions_of
from delivery_verifier.judgement.unproven import withheld
from delivery_verifier.model.anomalies import Anomaly, searched_for
from delivery_verifier.model.history import Disturbance, Injection, Observation, read_injections, read_observations
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.model.snapshot import Offsets, read_offsets
from delivery_verifier.model.verdict import Exposure
from delivery_verifier.store.books import Books, count_missing, count_strangers
from delivery_verifier.store.counts import LATE, UNPROVEN, case_counts
from delivery_verifier.store.given_up import GivenUpCount, read_given_up
from delivery_verifier.store.ledger import ENDED_EARLY, reported_counts
from delivery_verifier.store.replicas import read_replicas
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.store.shared_offsets import SharedOffsets, read_shared_offsets
from delivery_verifier.store.witness import Row, Witness, read_outputs, read_witness


@dataclass(frozen=True)
class Evidence:
    """The evidence of one run, and properties that follow from it.

    * `books`: the tables of counts that the step `reconcile` wrote.
    * `canary_expected`: maps each column of the books to the total that the canary must show.
    * `replicas`: the table of the replicas.
    * `strangers`: maps an arm to the number of records without any trace of this run.
    * `load_began_us`: when the step `produce` began (µs since the epoch). Nothing was sent before, not even a warm-up.
    * `ended_early`: maps a producer (`<arm>/...`) to the fatal client error that ended its load.
    * `transactions`: maps each arm that writes transactions to the counts of its transactions.
    * `indeterminate`: maps an arm to the number of attempts whose outcome is INDETERMINATE.
    * `cases`: the content of anomalies/, one row per case, up to a bound; None if there is no file.
    * `missing`: by (arm, partition), the reported attempts that were not found, but may stand at unreadable offsets.
    * `witness`: what brokers wrote down of the applications' groups. `outputs`: what brokers say of their output
      topics. Both are None without applications.
    * `given_up`: maps an arm to what it gave up.
    * `shared_offsets`: maps an arm to the offsets that several of its attempts were told; empty if the run was
      reconciled before they were counted.
    * `audit_counts`, `audit_notes`, `not_planted`: only of an audit: its own counts and notes, and the kinds of
      anomalies that its canary could not have, with the reason.
    """

    scenario: Scenario
    injections: list[Injection]
    observations: list[Observation]
    offsets: Offsets
    books: Books
    canary_expected: Mapping[str, int]
    replicas: pa.Table
    strangers: Mapping[str, int]
    load_began_us: int = 0
    ended_early: Mapping[str, str] = field(default_factory=dict)
    transactions: Mapping[str, TransactionCounts] = field(default_factory=dict)
    indeterminate: Mapping[str, int] = field(default_factory=dict)
    cases: pa.Table | None = None
    missing: Mapping[tuple[str, int], int] = field(default_factory=dict)
    witness: Witness | None = None
    outputs: list[Row] | None = None
    given_up: Mapping[str, list[GivenUpCount]] = field(default_factory=dict)
    shared_offsets: Mapping[str, SharedOffsets] = field(default_factory=dict)
    audit_counts: Mapping[str, int] = field(default_factory=dict)
    audit_notes: Mapping[str, str] = field(default_factory=dict)
    not_planted: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, run_dir: Path) -> Evidence:
        """Returns the evidence in a run directory. Raises IncompleteRun if the step `reconcile`, or a step before it,
        did not finish, or if a file is missing or damaged."""
        from delivery_verifier import canary

        run = RunDirectory(run_dir)
        run.require("produce", "inject_fault", "settle", "reconcile")
        scenario = run.read_scenario()
        try:
            injections = read_injections(_text(run.path / "injections.json"))
            observations = read_observations(_text(run.path / "observations.json"))
            offsets = read_offsets(_text(run.path / "offsets.json"))
            books = Books.read(run.path, bool(scenario.applied))
            cases = read_case_files(run.path / "anomalies")
            replicas = read_replicas(run)
            shared = read_shared_offsets(run, scenario.arm_names)
            witness, outputs = (read_witness(run), read_outputs(run)) if scenario.applied else (None, None)
        except (msgspec.MsgspecError, pa.ArrowException) as error:
            raise IncompleteRun(f"{run.path} is damaged: {error}") from None
        load = run.manifest("produce")
        early = {
            name.removeprefix(ENDED_EARLY): error for name, error in load.notes.items() if name.startswith(ENDED_EARLY)
        }
        indeterminate = reported_counts(load.counts, Outcome.INDETERMINATE)
        audited = (_without(prefix, texts) for prefix, texts in _of_audit(run, scenario))
        planted = _planted(run) if scenario.audit else canary.expected_counts(scenario)
        known = (scenario, injections, observations, offsets, books, planted, replicas)
        transactions, given_up = transactions_of(scenario, load.counts), read_given_up(run)
        more = (transactions, indeterminate, cases, count_missing(run), witness, outputs, given_up)
        return cls(*known, count_strangers(run, scenario.arm_names), load.started_at_us, early, *more, shared, *audited)

    @property
    def searched(self) -> tuple[Anomaly, ...]:
        """The anomalies for which the run was searched."""
        return searched_for(bool(self.scenario.applied))

    @cached_property
    def disturbances(self) -> list[Disturbance]:
        """All disturbances of the cluster, in order of time."""
        return disturbances(self.observations, self.injections)

    @cached_property
    def elections(self) -> dict[tuple[str, int], Elections]:
        """The elections of each partition, by topic and number."""
        return elections(self.observations, self.injections)

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
        return next(arm for arm in self.arms if arm.is_canary)

    @cached_property
    def cases_by_injection(self) -> dict[str, CasesByInjection] | None:
        """Maps an arm to the injections to which its cases belong. None if `cases` is None."""
        return None if self.cases is None else attribute_cases(self.cases, self.biting)

    @cached_property
    def kinds_sent_afterwards(self) -> dict[str, set[str]]:
        """Maps an arm to the anomalies of those records that it sent after all injected losses of power. Without such a
        loss, all records count. The result is empty if the cluster did not recover from one, or if `cases` is None."""
        power_losses = [injection for injection in self.biting if is_power_loss(injection)]
        return {} if self.cases is None else kinds_sent_afterwards(self.cases, power_losses)

    @property
    def biting(self) -> list[Injection]:
        """The injections that are proven to have taken effect."""
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
        return self.spec.name

    @property
    def is_canary(self) -> bool:
        """Whether the arm is the canary. The canary carries no load, and no contract applies to the canary."""
        return self.spec.role == "canary"

    @cached_property
    def disturbances(self) -> list[Disturbance]:
        """The disturbances of the arm's topic, of broker processes, and of coordinators of the arm's transactions."""
        coordinators = coordinator_partitions(self.run.observations)
        return disturbances_of_arm(self.spec, self.run.disturbances, coordinators, self.run.injections)

    @cached_property
    def elections(self) -> Mapping[int, Elections]:
        """The elections of each partition of the arm's topic."""
        topic = self.spec.topic_name
        return {number: history for (name, number), history in self.run.elections.items() if name == topic}

    @cached_property
    def rulings(self) -> dict[Anomaly, Ruling]:
        """The ruling of the contract and the arm's claim on each anomaly for which the run was searched."""
        if (audit := self.run.scenario.audit) is not None and not self.is_canary:
            rulings = withheld(audits.rulings(self.run.scenario, self.spec, audit), self, audit)
        else:
            rulings = effective(Settings.of_arm(self.run.scenario, self.spec), self.spec.claim, self.disturbances)
        return {anomaly: rulings[anomaly] for anomaly in self.run.searched}

    @cached_property
    def totals(self) -> dict[str, int]:
        """Maps each column of counts in books/producers to the sum over the arm's rows. Two further keys are present if
        their value is not 0. LATE: the sum of `resolved_late`, if `late_convicts`. UNPROVEN: the count of `missing`."""
        totals = self.run.books.totals(self.name)
        late = totals.get("resolved_late", 0) if self.late_convicts else 0
        missing = sum(count for (arm, _), count in self.run.missing.items() if arm == self.name)
        return totals | {key: count for key, count in ((LATE, late), (UNPROVEN, missing)) if count}

    @cached_property
    def late_convicts(self) -> bool:
        """Whether an INDETERMINATE attempt counts as REORDERED if its record stands behind a later attempt in the log.

        True if brokers must refuse such a late record (see `refuses_late`). False for the canary, and in an audit:
        nobody knows whether the producer was started again meanwhile.
        """
        if self.run.scenario.audit is not None:
            return False
        settings = Settings.of_arm(self.run.scenario, self.spec)
        return not self.is_canary and refuses_late(settings, self.run.disturbances)

    @cached_property
    def exposure(self) -> list[Exposure]:
        """For each injection, how many attempts it could have hurt. Empty if books/exposure lacks a column."""
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
        """The counts of the transactions of the arm's producers; None if the arm writes no transactions."""
        return self.run.transactions.get(self.name)

    @property
    def cases_by_injection(self) -> CasesByInjection | None:
        """The injections to which the arm's cases belong. None for the canary, or if `cases` of the run is None."""
        by_arm = self.run.cases_by_injection
        return None if by_arm is None or self.is_canary else by_arm.get(self.name, {})

    @property
    def kinds_sent_afterwards(self) -> set[str]:
        """The anomalies of the arm's records that were sent after all injected losses of power."""
        return self.run.kinds_sent_afterwards.get(self.name, set())

    def cases(self, anomaly: Anomaly) -> tuple[int, int]:
        """Returns two numbers: how many cases of `anomaly` the arm has, and how many attempts show `anomaly` but are
        cases of another anomaly: the first that they show, in order of precedence."""
        return case_counts(self.totals, anomaly)


def _of_audit(run: RunDirectory, scenario: Scenario) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if scenario.audit is not None:
        load, settled = run.manifest("produce"), run.manifest("settle")
        yield from ((audits.COUNT, load.counts), (audits.COUNT, {**load.notes, **settled.notes}))
        yield audits.NOT_PLANTED, settled.notes


def _planted(run: RunDirectory) -> dict[str, int]:
    """Returns what the canary of an audit must show, by column of the books."""
    return dict(_without(audits.PLANTED, run.manifest("settle").counts))


def _without(prefix: str, named: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}


def _text(file: Path) -> bytes:
    if not file.is_file():
        raise IncompleteRun(f"{file} is missing: what was done to the cluster is unknown")
    return file.read_bytes()

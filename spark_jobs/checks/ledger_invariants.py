"""The invariants about the ledger. Each invariant compares a count of the ledger with a number that the producers
announced, or that the producers counted themselves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run_directory.ledger import MISCOUNTED, outcomes_key
from spark_jobs.checks.invariant import Invariant, InvariantInputs, Rows
from spark_jobs.matching.tally import SESSIONS

Producer = tuple[str, int, int]
"""A producer of the ledger: its arm, its number and its session."""


def ledger_invariants(evidence: InvariantInputs) -> Iterable[Invariant]:
    """Yields the invariants that the ledger is complete, and that it agrees with the counts of the producers.

    If neither produce.json nor settle.json has a count, -1 stands for this count. No number of rows is -1, so the
    invariant is broken.
    """
    census = evidence.ledger_census.to_pylist()
    yield from summary_invariants(census, evidence.summarized, evidence.scenario)
    sums = _sums_of_producers(census)
    canary, transactional = evidence.scenario.canary.name, {*evidence.scenario.transactional}
    planned = {
        (arm.name, producer, session)
        for arm in evidence.scenario.arms
        for producer in range(arm.producers)
        for session in range(SESSIONS)
    }
    for arm, producer, session in sorted(sums.keys() | planned):
        key, owner = f"{arm}/{producer}/{session}", f"of producer {producer}, session {session}"
        counts = sums[arm, producer, session]
        count = counts["attempted"]
        announced = evidence.announced.get(f"announced/{key}", -1)
        yield Invariant("ledger_complete", arm, -1, f"ledger rows {owner}", count, "announced", announced)
        attempted = evidence.announced.get(f"attempted/{key}")
        if attempted is None or attempted >= 0:  # negative: the producer was killed and left no count
            right = -1 if attempted is None else attempted
            yield Invariant("ledger_complete", arm, -1, f"ledger rows {owner}", count, "counted at exit", right)
        yield from _agreement_invariants(evidence, (arm, producer, session), counts, arm == canary)
        if arm != canary:
            yield from _transaction_invariants(evidence, (arm, producer, session), counts, arm in transactional)


def _sums_of_producers(census: Rows) -> defaultdict[Producer, Counter[str]]:
    """Returns the counts of each producer, over all partitions. `census`: rows of `Census.ledger`."""
    names = ("attempted", "in_transactions", *(outcome.value.lower() for outcome in Outcome))
    sums: defaultdict[Producer, Counter[str]] = defaultdict(Counter)
    for row in census:
        counts = sums[row["arm"], row["producer"], row["session"]]
        for name in names:
            counts[name] += row[name]
    return sums


def summary_invariants(
    census: Rows, summarized: Mapping[str, tuple[int, int]], scenario: Scenario
) -> Iterable[Invariant]:
    """Yields the invariant that the summary of the load has every attempt of the ledger, for each arm that carries
    load.

    `census`: rows of `Census.ledger`. `summarized`: maps each arm to two counts of its attempts. The first was made for
    the timeline, the second for silences and exposure. If `summarized` lacks an arm, the two counts of this arm are 0.
    """
    rows: Counter[str] = Counter()
    for row in census:
        rows[row["arm"]] += row["attempted"]
    for arm in scenario.loaded:
        counts = summarized.get(arm.name, (0, 0))
        for name, count in zip(("the timeline", "silences and exposure"), counts, strict=True):
            yield Invariant(
                "ledger_complete", arm.name, -1, f"attempts in {name}", count, "ledger rows", rows[arm.name]
            )


def _agreement_invariants(
    evidence: InvariantInputs, producer: Producer, counts: Counter[str], is_canary: bool
) -> Iterable[Invariant]:
    """Yields the invariant that the ledger and the producer's own counters have the same number of reports of each
    outcome.

    Attempts without a report are left out. If a producer is killed, its counters may lack the last report. The
    restarted producer corrects its counters. It then announces how many reports the counters still count otherwise than
    the ledger. This number must be 0. `counts`: the producer's counts of rows in the ledger.
    `is_canary`: whether the producer belongs to the canary.
    """
    arm, name, owner = producer[0], "{}/{}/{}".format(*producer), "of producer {1}, session {2}".format(*producer)
    for outcome in Outcome:
        count = counts[outcome.value.lower()]
        counted = evidence.announced.get(outcomes_key(outcome, name), -1)
        left = f"ledger rows {owner} that were reported as {outcome}"
        yield Invariant("outcomes_agree", arm, -1, left, count, "counted by the producer", counted)
    if not is_canary:
        miscounted = evidence.announced.get(outcomes_key(MISCOUNTED, name), -1)
        left = f"reports {owner} that a killed process counted otherwise than its ledger"
        yield Invariant("outcomes_agree", arm, -1, left, miscounted, "zero", 0)


def _transaction_invariants(
    evidence: InvariantInputs, producer: Producer, counts: Counter[str], transactional: bool
) -> Iterable[Invariant]:
    """Yields the invariants about the transactions of one producer. `counts`: the producer's counts of rows in the
    ledger. `transactional`: whether the producer writes transactions.

    * If the producer is transactional, each of its rows is in a transaction. Otherwise none of its rows is in a
      transaction.
    * For each outcome, the ledger has as many transactions of the producer as the producer counted.
    """
    arm, owner = producer[0], "of producer {1}, session {2}".format(*producer)
    inside = counts["in_transactions"]
    expected = counts["attempted"] if transactional else 0
    yield Invariant(
        "ledger_complete", arm, -1, f"ledger rows {owner} in a transaction", inside, "that must be", expected
    )
    if transactional:
        key = "{}/{}/{}".format(*producer)
        begun, committed, aborted = (
            evidence.announced.get(f"transactions_{what}/{key}", -1) for what in ("begun", "committed", "aborted")
        )
        counted = {"COMMITTED": committed, "ABORTED": aborted, "INDETERMINATE": begun - committed - aborted}
        for outcome, number in counted.items():
            ended = evidence.views.transactions[*producer, outcome]
            left = f"transactions {outcome} in the ledger {owner}"
            yield Invariant("ledger_complete", arm, -1, left, ended, "counted by the producer", number)

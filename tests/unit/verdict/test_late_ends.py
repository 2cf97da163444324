"""Tests of late ends of transactions: whom they explain, which their proof says, and for how long."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.evidence import (
    EFFECT_AT,
    SECOND,
    Rows,
    a_scenario,
    arm,
    case,
    cases,
    doubts,
    evidence_of,
    judged,
    the_injections,
    with_arm,
)

from delivery_verifier.contract.disturbances import disturbances, disturbances_of_arm
from delivery_verifier.contract.effect_windows import effect_windows
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.model.history import LEAD_US, Disturbance, Injection
from delivery_verifier.model.late_ends import facts_of, name_of
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.verdict.transaction_counts import TransactionCounts

NAME = "transactional"
RUN = with_arm(a_scenario(NAME), NAME, producers=2)
IDS = RUN.arm(NAME).transactional_ids
PATIENT, IMPATIENT = facts_of(0, 6000, {}), facts_of(0, 6000, {"AddPartitionsToTxn": 1, "EndTxn": 1})
REFUSED = facts_of(48, 6000, {"EndTxn": 1})
LATE_US, OVER_US = EFFECT_AT - 60 * SECOND, EFFECT_AT - 50 * SECOND
"""When the proxy begins to make ends of transactions late, and when the cluster has recovered from that."""


def late(*facts: dict[str, int], **more: Any) -> Injection:
    """Returns an injection whose proof says `facts` of the late ends of the arm's producers, in their order."""
    (kill,) = the_injections(RUN)
    proof = {name_of(of, True, 1): fact for of, fact in zip(IDS, facts, strict=False)}
    times = {"effect_at_us": LATE_US, "healed_at_us": OVER_US - SECOND, "recovered_at_us": OVER_US}
    fields: dict[str, Any] = {
        "id": 2,
        "action": "delay_end",
        "brokers": [1, 2, 3],
        "took_effect": True,
        **times,
        **more,
    }
    return msgspec.structs.replace(kill, proof={"process_before_heal": proof}, **fields)


def seen(injection: Injection) -> list[tuple[list[int], bool]]:
    """Returns the late ends that concern the arm: of which producers, and whether they are planned."""
    found: list[Disturbance] = disturbances_of_arm(RUN.arm(NAME), disturbances([], [injection]), 3, [injection])
    return [(it.producers, it.planned) for it in found if it.kind == "late_end"]


def torn(injection: Injection, sent_us: int, settled_us: int | None, producer: int = 0) -> RunVerdict:
    """Returns the verdict on a run with one torn record, which was under way from `sent_us` to `settled_us`."""
    injections = [*the_injections(RUN), injection]

    def change(rows: Rows) -> None:
        tally = rows["counts/producers.parquet"]
        next(it for it in tally if (it["arm"], it["producer"]) == (NAME, producer))["torn"] = 1
        rows["counts/exposure.parquet"] = [
            {"arm": it.name, "injection": cause.id, "reported": 150, "outstanding": 20}
            for it in RUN.loaded
            for cause in injections
        ]

    row = case(sent_us, settled_us, "TORN", arm=NAME) | {"producer": producer}
    counts = {NAME: TransactionCounts(58, 52, 5)}
    return judged(evidence_of(RUN, change, injections=injections, cases=cases(row), transactions=counts))


@pytest.mark.parametrize(
    ("injection", "expected"),
    [
        (late(IMPATIENT, IMPATIENT), [([0, 1], True)]),
        (late(IMPATIENT, PATIENT), [([0], True)]),
        (late(REFUSED, IMPATIENT), [([1], True)]),
        (late(REFUSED, PATIENT), []),
        (late(IMPATIENT), [([0], True), ([1], False)]),  # nobody knows what became of the other's end
        (late(), [([0, 1], False)]),
        (late(IMPATIENT, PATIENT, took_effect=False), [([0, 1], False)]),
    ],
)
def test_a_late_end_concerns_the_producers_that_its_proof_does_not_clear(
    injection: Injection, expected: list[tuple[list[int], bool]]
) -> None:
    assert seen(injection) == expected


def test_a_late_end_concerns_no_arm_without_transactions() -> None:
    injection = late(IMPATIENT)
    other = next(it for it in RUN.loaded if not it.transactional_ids)
    assert disturbances_of_arm(other, disturbances([], [injection]), 3, [injection]) == []


SENT = (LATE_US + SECOND, LATE_US + 2 * SECOND)
"""When a record of the next transaction was sent, and when it was acknowledged."""


def test_a_client_that_did_not_wait_is_explained_and_one_that_waited_is_not() -> None:
    assert arm(torn(late(IMPATIENT, PATIENT), *SENT), NAME).verdict == "HELD"
    assert arm(torn(late(PATIENT, PATIENT), *SENT), NAME).verdict == "VIOLATED"
    assert arm(torn(late(REFUSED, PATIENT), *SENT), NAME).verdict == "VIOLATED"


def test_the_late_end_of_one_producer_does_not_explain_another() -> None:
    verdict = torn(late(IMPATIENT, PATIENT), *SENT, producer=1)
    assert (arm(verdict, NAME).verdict, doubts(verdict, NAME)) == ("INCONCLUSIVE", {("coverage", "unexplained")})


def test_a_producer_that_the_proof_does_not_name_is_a_doubt() -> None:
    verdict = torn(late(PATIENT), *SENT, producer=1)
    assert arm(verdict, NAME).verdict == "INCONCLUSIVE"
    assert ("coverage", "unplanned_disturbance") in doubts(verdict, NAME)


@pytest.mark.parametrize("action", ["hold", "delay"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"api": "EndTxn", "direction": "request"}, [([0, 1], False)]),
        ({"api": 26, "direction": "request"}, [([0, 1], False)]),
        ({"api": "26", "direction": "request"}, [([0, 1], False)]),
        ({"api": "EndTxn"}, []),  # the response is held: the end was in time
        ({"api": "AddPartitionsToTxn", "direction": "request"}, []),
        ({}, []),
    ],
)
def test_ends_that_a_plan_of_the_user_makes_late_explain_with_a_doubt(
    action: str, options: dict[str, Any], expected: list[tuple[list[int], bool]]
) -> None:
    injection = late(IMPATIENT, IMPATIENT, action=action, options=options)
    injection.proof["process_before_heal"] = {"broker 1": {"a": 2}}
    assert seen(injection) == expected
    assert arm(torn(injection, *SENT), NAME).verdict == ("INCONCLUSIVE" if expected else "VIOLATED")


END_US = OVER_US + OBSERVER_LAG_US


@pytest.mark.parametrize(
    ("sent_us", "settled_us", "verdict"),
    [
        (LATE_US - LEAD_US, LATE_US - LEAD_US, "HELD"),
        (LATE_US - 9 * SECOND, LATE_US - LEAD_US, "HELD"),
        (LATE_US - 9 * SECOND, LATE_US - LEAD_US - 1, "INCONCLUSIVE"),  # its transaction may have ended within
        (LATE_US - LEAD_US, None, "HELD"),
        (LATE_US - LEAD_US - 1, None, "INCONCLUSIVE"),
        (END_US, END_US + 9 * SECOND, "HELD"),
        (END_US + 1, END_US + 2, "INCONCLUSIVE"),
        (EFFECT_AT + SECOND, EFFECT_AT + 2 * SECOND, "INCONCLUSIVE"),  # in the time of the kill
    ],
)
def test_a_late_end_explains_transactions_that_were_open_while_it_was_late(
    sent_us: int, settled_us: int | None, verdict: str
) -> None:
    assert arm(torn(late(IMPATIENT, PATIENT), sent_us, settled_us), NAME).verdict == verdict


def test_a_late_end_from_which_the_cluster_never_recovered_explains_until_the_end() -> None:
    forever = late(IMPATIENT, PATIENT, healed_at_us=None, recovered_at_us=None)
    windows = effect_windows(disturbances([], [forever]), [], [forever])
    assert {(it.since_us, it.until_us) for it in windows} == {(LATE_US - LEAD_US, None)}

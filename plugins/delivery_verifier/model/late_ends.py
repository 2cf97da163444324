"""Late requests to end a transaction (EndTxn): how the proof of an injection names and describes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import Disturbance, Injection

_NAME = re.compile(r"EndTxn \((?:commit|abort)\) of (.+) at broker \d+")


class AnsweredEnd(NamedTuple):
    """A late EndTxn request that its broker has answered.

    `hurts`: whether the request may have ended the wrong transaction, that is, a later transaction of the same
    transactional.id. True if the broker accepted the request after other requests of the same client had overtaken it.
    """

    transactional_id: str
    hurts: bool


def name_of(transactional_id: str, is_commit: bool, broker: int) -> str:
    """Returns the name of a late EndTxn request: its key in the proof. `is_commit`: whether it commits."""
    return f"EndTxn ({'commit' if is_commit else 'abort'}) of {transactional_id} at broker {broker}"


def facts_of(error_code: int, late_ms: int, overtaking: Mapping[str, int]) -> dict[str, int]:
    """Returns the facts about a late EndTxn request: its value in the proof. `error_code` is Kafka's code of the answer
    (0: no error). `overtaking` maps the name of a request to how many such requests overtook the late one."""
    return {"error_code": error_code, "late_ms": late_ms, **overtaking}


def has_late_end(injection: Injection, disturbance: Disturbance) -> bool:
    """Whether `injection` caused `disturbance`, which is of the kind `late_end`."""
    act = ACTS.get(injection.action)
    return act is not None and "late_end" in act.counts_as and injection.bite_at_us == disturbance.at_us


def answered_ends(injection: Injection) -> Iterator[AnsweredEnd]:
    """Yields the late EndTxn requests that the proof of `injection` names; none if `injection` did not provably
    bite.
    """
    proof: Any = injection.proof.get("process_before_heal", {})
    for name, facts in proof.items() if injection.bit else ():
        if match := _NAME.fullmatch(name):
            overtaken = any(count for key, count in facts.items() if key not in facts_of(0, 0, {}))
            yield AnsweredEnd(match[1], hurts=facts.get("error_code") == 0 and overtaken)

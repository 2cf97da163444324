"""Late requests to end a transaction (EndTxn): how the proof of an injection names and describes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from delivery_verifier.model.act import APIS, Act
from delivery_verifier.model.data import Setting
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import Disturbance, DisturbanceKind, Injection

_NAME = re.compile(r"EndTxn \((?:commit|abort)\) of (.+) at broker \d+")


class AnsweredEnd(NamedTuple):
    """A late EndTxn request that its broker has answered.

    `is_overtaken`: whether other requests of the same client had overtaken it. `hurts`: whether it may have ended the
    wrong transaction, that is, a later transaction of the same transactional.id: the broker accepted it, although it
    was overtaken.
    """

    transactional_id: str
    is_overtaken: bool
    hurts: bool


def name_of(transactional_id: str, is_commit: bool, broker: int) -> str:
    """Returns the name of a late EndTxn request. The name is the key of the request in the proof. `is_commit`: whether
    the request commits its transaction."""
    return f"EndTxn ({'commit' if is_commit else 'abort'}) of {transactional_id} at broker {broker}"


def facts_of(error_code: int, late_ms: int, overtaking: Mapping[str, int]) -> dict[str, int]:
    """Returns the facts about a late EndTxn request. The proof of an injection holds these facts under the name of the
    request.

    `error_code` is the error code in the broker's answer (0: no error). `late_ms` is the delay in ms. `overtaking` maps
    a kind of request, e.g. `Produce`, to the number of such requests that overtook the late request.
    """
    return {"error_code": error_code, "late_ms": late_ms, **overtaking}


def kinds_of(act: Act, options: Mapping[str, Setting]) -> tuple[DisturbanceKind, ...]:
    """Returns `act.counts_as`. If the `options` make `act` hold or delay EndTxn requests, adds the kind `late_end`."""
    is_end = options.get("api") in ("EndTxn", APIS["EndTxn"], str(APIS["EndTxn"]))
    delays_ends = act.name in ("hold", "delay") and is_end and options.get("direction") == "request"
    return (*act.counts_as, "late_end") if delays_ends else act.counts_as


def has_late_end(injection: Injection, disturbance: Disturbance) -> bool:
    """Returns whether `injection` caused `disturbance`. `disturbance` must be of the kind `late_end`."""
    act = ACTS.get(injection.action)
    kinds = kinds_of(act, injection.options) if act else ()
    return "late_end" in kinds and injection.effect_at_us == disturbance.at_us


def answered_ends(injection: Injection) -> Iterator[AnsweredEnd]:
    """Yields the late EndTxn requests that the broker answered, according to the proof of `injection`.

    Yields nothing if it is not proven that `injection` took effect.
    """
    proof: Any = injection.proof.get("process_before_heal", {})
    for name, facts in proof.items() if injection.took_effect else ():
        if match := _NAME.fullmatch(name):
            is_overtaken = any(count for key, count in facts.items() if key not in facts_of(0, 0, {}))
            yield AnsweredEnd(match[1], is_overtaken, hurts=facts.get("error_code") == 0 and is_overtaken)

"""The command that a run is advised: it asks for more records only where the run has too few for so many cycles."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from support.evidence import RUN, evidence_of

from delivery_verifier.verdict.limits import limits

NEEDED = 29
"""After so many faults, what was not seen occurs in at most a tenth of them."""


@pytest.mark.parametrize(("records", "asks"), [(2 * NEEDED - 1, True), (2 * NEEDED, False)])
def test_a_run_with_just_enough_records_is_not_told_to_send_more(records: int, asks: bool) -> None:
    arms = tuple(msgspec.structs.replace(arm, records=records) for arm in RUN.arms)
    of = msgspec.structs.replace(RUN, command="kdv run --fault kill_leader", arms=arms, min_exposed=2)
    (advice,) = [text for text in limits(replace(evidence_of(RUN), scenario=of)) if "bring that down" in text]
    more = " --records 58" if asks else ""
    assert advice.endswith(f"must be repeated {NEEDED} times: `kdv run --fault kill_leader{more} --cycles 29`.")

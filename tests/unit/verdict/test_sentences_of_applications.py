"""Tests of what a sentence says was exposed when applications were hit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from support.evidence import RUN, the_injections

from delivery_verifier.verdict import sentences

(KILL,) = the_injections(RUN)
CRASH = replace(KILL, action="kill_application", proof={"process": {"in progress of a": 6}})
REWIND = replace(KILL, action="rewind", proof={"process": {"rewound a": 600}})


@pytest.mark.parametrize(
    ("effective", "expected"),
    [
        ([CRASH], "6 records in progress"),
        ([REWIND], "600 records set back"),
        ([REWIND, CRASH, CRASH], "12 records in progress and 600 records set back"),
        ([replace(CRASH, proof={"process": {"in progress of a": 1}})], "1 record in progress"),
        ([replace(CRASH, proof={})], "0 records in progress"),
        (
            [replace(CRASH, action="freeze_application"), replace(CRASH, action="thaw_application")],
            "6 records in progress",
        ),
    ],
)
def test_what_was_in_progress_and_what_was_set_back_are_distinguished(effective: list[Any], expected: str) -> None:
    arm: Any = SimpleNamespace(name="a", run=SimpleNamespace(effective=effective), exposure=[])
    assert sentences._exposed(arm) == expected


def test_beside_a_fault_of_brokers_the_sentence_counts_what_was_in_flight() -> None:
    arm: Any = SimpleNamespace(name="a", run=SimpleNamespace(effective=[CRASH, KILL]), exposure=[])
    assert sentences._exposed(arm) == "0 records in flight at the faults and 0 records exposed until recovery"

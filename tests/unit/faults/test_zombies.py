"""Freezes of members: a replacement that works has not been held up by the frozen member's transaction."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from delivery_verifier.applications.control import Word
from delivery_verifier.faults import zombies
from delivery_verifier.faults.action import Done
from delivery_verifier.faults.zombies import FreezeApplication


def context(replacement: dict[Word, int]) -> Any:
    """Returns the context of a freeze of one member, which has ten records in progress. `replacement`: the control
    block of its replacement."""
    zombie = SimpleNamespace(
        name="a/0",
        arm=SimpleNamespace(name="a", topic_name="topic"),
        application=SimpleNamespace(discipline="transform_assigned"),
        replacement=replacement,
        is_frozen=True,
        is_assigned=True,
        client_ids=("a-0", "a-1"),
    )
    applications = SimpleNamespace(
        zombies=SimpleNamespace(all=[zombie]),
        in_progress=lambda: {"a": 10},
        parked_at=lambda: {"a/0": "offsets_sent"},
    )
    return SimpleNamespace(
        applications=applications,
        scenario=SimpleNamespace(run_token="token", load=SimpleNamespace(partitions=1)),
        cluster=SimpleNamespace(connection=None),
    )


@pytest.mark.parametrize(("handed_over", "is_proof"), [(0, True), (10, False)])
def test_pending_offsets_do_not_hold_up_a_replacement_that_was_handed_records_meanwhile(
    monkeypatch: pytest.MonkeyPatch, handed_over: int, is_proof: bool
) -> None:
    """While the coordinator is asked, the replacement may begin a transaction. Its offsets are pending, too."""
    replacement = Counter[Word]()

    def has_pending_offsets(*_: Any) -> bool:
        replacement[Word.HANDED_OVER] = handed_over
        return True

    monkeypatch.setattr(zombies.topics, "admin", lambda connection: None)
    monkeypatch.setattr(zombies.groups, "has_pending_offsets", has_pending_offsets)
    assert bool(FreezeApplication().proof(context(replacement), Done(0))) == is_proof

"""Tests of members with the Java client on real brokers: whatever hits them, each discipline skips and applies again
what it does with librdkafka."""

from __future__ import annotations

from pathlib import Path

from support.application_stage import Stage, entry_of

from delivery_verifier.catalogue.parts import AT_ONCE, CAUGHT_UP, PARKED, SETTLED, step
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.model.client import versioned

BOTH = (versioned("librdkafka", ""), versioned("java", ""))


def test_x(cluster: Cluster, tmp_path: Path) -> None:
    plan = entry_of(
        step(CAUGHT_UP, "park", "none", at="applied", record=4),
        step(AT_ONCE, "send", "none"),
        step(PARKED, "kill_application", "none"),
        step(AT_ONCE, "restart_application", "none"),
        step(SETTLED, "wait", "none"),
        step(CAUGHT_UP, "rewind", "none"),
        step(CAUGHT_UP, "wait", "none"),
        names=("commit_first", "commit_after"),
    )
    stage = Stage(cluster, tmp_path, plan, BOTH)
    print(stage.play())
    print(stage.effects())
    print(stage.differences(stage.group_log(), is_rewound=True))

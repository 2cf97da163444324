"""What the observer watches, and what of its record becomes observations.json."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from delivery_verifier.catalogue import APPLICATIONS, FAULTS, PROFILES, scenario
from delivery_verifier.model.history import Observation
from delivery_verifier.model.scenario import Load
from delivery_verifier.pipeline.steps import settle
from delivery_verifier.pipeline.steps.create_topics import watched_topics


@pytest.mark.parametrize(("profile", "internal"), [("safe", []), ("transactional", ["__transaction_state"])])
def test_the_observer_watches_all_arms_and_the_internal_topic_of_those_that_write_transactions(
    profile: str, internal: list[str]
) -> None:
    run = scenario("run-1", profile=PROFILES[profile], fault=FAULTS["none"], load=Load(), records=10)
    assert watched_topics(run) == [*(arm.topic_name for arm in run.arms), *internal]


def test_the_observer_watches_the_topics_to_which_applications_write() -> None:
    run = scenario(
        "run-1",
        profile=PROFILES["safe"],
        fault=FAULTS["none"],
        load=Load(),
        records=10,
        application=APPLICATIONS["transform"],
    )
    names = [arm.topic_name for arm in run.arms]
    assert watched_topics(run) == [*names, f"{run.subjects[0].topic_name}-out", f"{run.canary.topic_name}-out"]


def test_observations_keep_the_order_of_the_file_and_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    made = [Observation(at_us=at, kind="process", broker=1, state="running") for at in (30, 10, 20)]
    lines = b"".join(msgspec.json.encode(it) + b"\n" for it in made)
    (tmp_path / "observations.jsonl").write_bytes(lines + b'{"at_us":40,"ki')
    cluster: Any = SimpleNamespace(workspace=tmp_path)
    assert settle._observations(cluster) == made

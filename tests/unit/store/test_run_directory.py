"""The run directory: what may be read off it after a step was repeated, or was begun twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.evidence import RUN

from delivery_verifier.load.pool import AlreadySent, ProducerPool
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory

JUDGING = ("read_topic", "reconcile", "validate", "conclude")


def finished(folder: Path) -> RunDirectory:
    run = RunDirectory(folder)
    for step in ("settle", *JUDGING):
        publish(run, step)
    return run


def publish(run: RunDirectory, step: str) -> None:
    with run.writing(step) as output:
        output.write_json(f"of_{step}.json", {})


@pytest.mark.parametrize("step", JUDGING)
def test_a_step_that_is_repeated_voids_what_was_read_off_it_before(tmp_path: Path, step: str) -> None:
    run = finished(tmp_path)
    publish(run, step)
    at = JUDGING.index(step) + 1
    run.require("settle", *JUDGING[:at])
    for later in JUDGING[at:]:
        with pytest.raises(IncompleteRun, match=f"step {later} did not finish"):
            run.manifest(later)


def test_a_repetition_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    run = finished(tmp_path)
    with pytest.raises(ZeroDivisionError), run.writing("reconcile"):
        raise ZeroDivisionError
    run.require("settle", *JUDGING)


def test_a_load_is_not_sent_a_second_time_under_the_same_numbers(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    with pytest.raises(AlreadySent, match="start another run"):
        ProducerPool(RUN, {"bootstrap.servers": "127.0.0.1:1"}, tmp_path)

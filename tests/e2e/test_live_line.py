"""Tests of the live line and of the tab while real runs go on: in no phase do they say the words of another phase."""

from __future__ import annotations

import pytest
from support.airflow import LocalAirflow
from support.watched import Saying, assert_true

from delivery_verifier.model.steps import DOING
from delivery_verifier.run_directory.run_directory import RunDirectory

pytestmark = pytest.mark.timeout(1200)  # the first test waits for a whole run, on a host that may be busy
FAULT = "the fault elect_preferred"


@pytest.mark.parametrize("who", ["terminal", "tab"])
def test_in_no_phase_of_a_run_through_airflow_are_the_words_of_another_phase_said(
    plain_run: RunDirectory, local_airflow: LocalAirflow, who: str
) -> None:
    assert_true(local_airflow.said[who], plain_run)
    assert DOING["reconcile"].lower() in _words(local_airflow.said[who])


def test_in_no_phase_of_a_direct_run_are_the_words_of_another_phase_said(
    plain_run_directly: RunDirectory, local_airflow: LocalAirflow
) -> None:
    assert_true(local_airflow.said["direct"], plain_run_directly)
    assert DOING["reconcile"].lower() in _words(local_airflow.said["direct"])


@pytest.mark.parametrize("who", ["terminal", "direct"])
def test_the_fault_is_named_while_it_lasts_and_is_over_only_afterwards(
    plain_run_directly: RunDirectory, local_airflow: LocalAirflow, who: str
) -> None:
    """A host that stalls may hide the beginning from whoever watches, but `assert_true` holds what was seen."""
    words = [text for text in _words(local_airflow.said[who]) if text.startswith("load ")]
    phases = [f"load {part} {FAULT}" for part in ("before", "under", "after")]
    assert words and words == [phase for phase in phases if phase in words]


def _words(said: list[Saying]) -> list[str]:
    """Returns the different sayings in their order, without what the fault plan did last."""
    return list(dict.fromkeys(each.text.lower().split(":")[0] for each in said))

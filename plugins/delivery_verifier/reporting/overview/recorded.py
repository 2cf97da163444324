"""The parts of scenario.json and verdict.json that the page of all runs shows.

The page must also list runs that another version of this project made. So unknown fields are ignored, and missing
fields have defaults.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from delivery_verifier.model.verdict import Exposure
from delivery_verifier.run_directory.run_directory import RunDirectory


class Named(Struct, frozen=True):
    """A profile, an application or a fault plan, of which only the name is read."""

    name: str = ""


class RecordedArm(Struct, frozen=True):
    """An arm in scenario.json."""

    name: str
    role: str
    profile: Named = Named()
    application: Named | None = None


class RecordedCluster(Struct, frozen=True):
    """The cluster in scenario.json."""

    kafka_version: str = ""


class RecordedScenario(Struct, frozen=True):
    """The content of scenario.json."""

    name: str = ""
    created_at: str = ""
    fault: Named = Named()
    arms: list[RecordedArm] = []
    cluster: RecordedCluster = RecordedCluster()


class RecordedGivenUp(Struct, frozen=True):
    """What an arm gave up, in verdict.json."""

    attempts: int = 0


class RecordedArmVerdict(Struct, frozen=True):
    """The verdict of an arm in verdict.json."""

    role: str
    tally: dict[str, int] = {}
    exposure: list[Exposure] = []
    longest_gap_s: float | None = None
    given_up: RecordedGivenUp | None = None


class RecordedVerdict(Struct, frozen=True):
    """The content of verdict.json."""

    verdict: str
    green: bool
    sentence: str = ""
    arms: list[RecordedArmVerdict] = []


def scenario(run: Path) -> RecordedScenario:
    """Returns the scenario of the run in the directory `run`.

    Raises OSError or msgspec.MsgspecError if scenario.json is missing or damaged.
    """
    return msgspec.json.decode((run / "scenario.json").read_bytes(), type=RecordedScenario)


def sealed_verdict(run: Path) -> RecordedVerdict:
    """Returns the verdict of the run in the directory `run`. Checks that the verdict's file was not changed after the
    step `conclude`.

    Does not check the hash of the report, a large file, because the page lists thousands of runs. Raises IncompleteRun,
    OSError or msgspec.MsgspecError if the verdict is missing, altered or damaged.
    """
    return msgspec.json.decode(RunDirectory(run).sealed_alone("conclude", "verdict.json"), type=RecordedVerdict)

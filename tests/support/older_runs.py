"""Runs that an older version of the verifier wrote and judged. They are stored in tests/data without report.html."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.store.books import counts_of
from delivery_verifier.store.run_directory import RunDirectory

RUNS = Path(__file__).parents[1] / "data" / "runs"
VERSION = 1
"""The version of the format in which they are stored."""
NAMES = ("held-at-834dd39", "violated-at-834dd39")
_OF_A_FINDING = ("anomaly", "ruling", "ruled_by", "rule", "tolerance", "count", "also")
_OF_AN_ARM = ("role", "profile", "claim", "verdict", "as_expected", "exposure", "bites", "longest_gap_s")


def older_run(name: str, folder: Path) -> RunDirectory:
    """Returns a copy of the stored run `name` below `folder`. A test may alter the copy."""
    return RunDirectory(shutil.copytree(RUNS / name, folder / name))


def stored_judgement(name: str) -> dict[str, Any]:
    """Returns what the older version said of the run, in the form of `judgement`.

    The verdict is read as plain JSON, without any reader of this project.
    """
    return _judgement(json.loads((RUNS / name / "verdict.json").read_bytes()))


def judgement(verdict: RunVerdict) -> dict[str, Any]:
    """Returns the part of a verdict that must be the same in every version: verdicts, counts, rulings, exposure, the
    injections that hurt each arm, and doubts.

    Sentences may differ between versions. So doubts are given only by kind and name, without their detail. Columns of
    the books that only a newer version has are left out.
    """
    return _judgement(msgspec.to_builtins(verdict))


def _judgement(verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "verdict": verdict["verdict"],
        "green": verdict["green"],
        "arms": {
            arm["arm"]: {name: arm[name] for name in _OF_AN_ARM}
            | {"books": {name: count for name, count in arm["books"].items() if name in counts_of(VERSION)}}
            | {"findings": [[finding[name] for name in _OF_A_FINDING] for finding in arm["findings"]]}
            | {"doubts": sorted((doubt["kind"], doubt["name"]) for doubt in arm["doubts"])}
            for arm in verdict["arms"]
        },
    }

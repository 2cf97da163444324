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
RULED_SINCE: dict[tuple[str, str], tuple[str, str]] = {("acks_0", "REORDERED"): ("PERMITTED", "reordered.acks_0")}
"""Rulings that a later version gives on purpose: maps profile and anomaly to the ruling and its rule.

None of these rulings has a tolerance."""


def older_run(name: str, folder: Path) -> RunDirectory:
    """Returns a copy of the stored run `name` below `folder`. A test may alter the copy."""
    return RunDirectory(shutil.copytree(RUNS / name, folder / name))


def stored_judgement(name: str) -> dict[str, Any]:
    """Returns what the older version said of the run, in the form of `judgement`.

    The verdict is read as plain JSON, without any reader of this project.
    """
    return _judgement(json.loads((RUNS / name / "verdict.json").read_bytes()))


def judgement_today(name: str, *, validated_anew: bool) -> dict[str, Any]:
    """Returns what must be said of the run today: the stored judgement, with the rulings of RULED_SINCE.

    Unless the run was validated anew, its stored validation speaks of the older rulings. Arms with a ruling that has
    changed are then in doubt.
    """
    today = stored_judgement(name)
    for arm in today["arms"].values():
        since = {anomaly: ruling for (profile, anomaly), ruling in RULED_SINCE.items() if profile == arm["profile"]}
        for finding in arm["findings"]:
            if finding[0] in since:
                finding[1:5] = [since[finding[0]][0], "contract", since[finding[0]][1], None]
        if since and not validated_anew:
            arm |= {"verdict": "INCONCLUSIVE", "as_expected": False}
            arm["doubts"] = sorted([*arm["doubts"], ("checker", "expectation_not_evaluated")])
            today["green"] = False
    return today


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

"""The stored runs in tests/data/runs: real runs of the present format, without report.html. `make_stored_runs` makes
them anew."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from delivery_verifier.model.data import dumps
from delivery_verifier.model.steps import REQUIRES
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory.manifests import Manifest, sealed
from delivery_verifier.run_directory.run_directory import RunDirectory

RUNS = Path(__file__).parents[1] / "data" / "runs"
HELD, VIOLATED = NAMES = ("held", "violated")
"""The stored runs. HELD: transactional under kill_leader. VIOLATED: acks_1 under pause_leader, which loses records."""
_OF_A_FINDING = ("anomaly", "ruling", "ruled_by", "rule", "tolerance", "count", "also")
_OF_AN_ARM = ("role", "profile", "claim", "verdict", "as_expected", "exposure", "seen_in", "longest_gap_s", "tally")


def stored_run(name: str, folder: Path) -> RunDirectory:
    """Returns a copy of the stored run `name` below `folder`. A test may alter the copy."""
    return RunDirectory(shutil.copytree(RUNS / name, folder / name))


def stored_judgement(name: str) -> dict[str, Any]:
    """Returns what was said of the run when it was made, in the form of `verdict`.

    The verdict is read as plain JSON, without any reader of this project.
    """
    return _judgement(json.loads((RUNS / name / "verdict.json").read_bytes()))


def judgement(verdict: RunVerdict) -> dict[str, Any]:
    """Returns the part of a verdict that a repeated judgement must not change: verdicts, counts, rulings, exposure, the
    injections that hurt each arm, and doubts. Doubts are given only by kind and name, without their detail."""
    return _judgement(msgspec.to_builtins(verdict))


def _judgement(verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "verdict": verdict["verdict"],
        "green": verdict["green"],
        "arms": {
            arm["arm"]: {name: arm[name] for name in _OF_AN_ARM}
            | {"findings": [[finding[name] for name in _OF_A_FINDING] for finding in arm["findings"]]}
            | {"doubts": sorted((doubt["kind"], doubt["name"]) for doubt in arm["doubts"])}
            for arm in verdict["arms"]
        },
    }


def relink(run: RunDirectory) -> None:
    """Makes every manifest name the manifests that are there now, and seals it again.

    A liar who computes every checksum anew does the same. What notices this liar must be something else than a
    checksum.
    """
    for step in (step for step in REQUIRES if (run.path / f"{step}.json").is_file()):
        text = msgspec.json.decode((run.path / f"{step}.json").read_bytes())
        links = {"required": run.rested_on(step), "run_id": run.run_id()}
        (run.path / f"{step}.json").write_bytes(dumps(sealed(msgspec.convert(text | links, Manifest))))

"""What the judge reads of an audit that it reads of no other run: counts, notes, and what its canary must show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from support.stored_data import HELD, relink, stored_run

from delivery_verifier.model.audit import Audit, Identity
from delivery_verifier.model.data import dumps
from delivery_verifier.verdict.evidence import Evidence

AUDIT = Audit(files=("acks.jsonl",), claims=7, format="jsonl", identity=Identity(kind="key"))


def rewritten(path: Path, **changes: Any) -> None:
    """Adds `changes` to a JSON file."""
    stored = msgspec.json.decode(path.read_bytes())
    for name, value in changes.items():
        stored[name] = stored[name] | value if isinstance(stored[name], dict) else value
    path.write_bytes(dumps(stored))


def test_an_audit_has_its_own_counts_its_notes_and_what_its_canary_must_show(tmp_path: Path) -> None:
    run = stored_run(HELD, tmp_path)
    rewritten(run.path / "scenario.json", audit=msgspec.to_builtins(AUDIT))
    rewritten(run.path / "produce.json", counts={"audit/expired": 3}, notes={"audit/shared": "line 7 and line 9"})
    notes = {"audit/canary_wrong": "9 were found", "not_planted/REORDERED": "too few records"}
    rewritten(run.path / "settle.json", counts={"planted/lost": 2}, notes=notes)
    relink(run)
    evidence = Evidence.load(run.path)
    assert evidence.audit_counts == {"expired": 3}
    assert evidence.audit_notes == {"shared": "line 7 and line 9", "canary_wrong": "9 were found"}
    assert evidence.not_planted == {"REORDERED": "too few records"}
    assert evidence.canary_expected == {"lost": 2}


def test_a_run_of_our_own_has_nothing_of_an_audit(tmp_path: Path) -> None:
    evidence = Evidence.load(stored_run(HELD, tmp_path).path)
    assert (evidence.audit_counts, evidence.audit_notes, evidence.not_planted) == ({}, {}, {})
    assert evidence.canary_expected["lost"] > 0

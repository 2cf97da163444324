"""Tests of the provenance of a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from delivery_verifier.host import folders
from delivery_verifier.planning.provenance import commit


def test_an_image_without_git_names_the_commit_of_its_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "project_root", lambda: tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("KDV_COMMIT", "0123abc")
    assert commit() == "0123abc"
    monkeypatch.setenv("KDV_COMMIT", "")
    assert commit() == "unknown"

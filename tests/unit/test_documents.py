"""The documents promise what the program does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support import report_material

from delivery_verifier.pages.report import page

ROOT = Path(__file__).resolve().parents[2]
MINUTES = {"a minute": 1, "two minutes": 2, "three minutes": 3}


@pytest.mark.slow
def test_the_readme_promises_the_cases_where_they_are(tmp_path: Path) -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    assert "its report lists the first lost records and tells the story of one" in text
    assert "It also names the settings that would have held under this fault." in text
    path, verdict = report_material.violated(tmp_path)
    report = page.render(path, verdict)
    assert "What to change" in report
    assert "One record's story." in report.replace("&#39;", "'") and "the first 20 shown" in report


def test_the_dag_promises_about_as_many_minutes_as_were_measured() -> None:
    text = ast.get_docstring(ast.parse((ROOT / "dags/verify_delivery.py").read_text())) or ""
    promised = re.search(r"a complete run of about ((?:a|two|three) minutes?)", " ".join(text.split()))
    results = (ROOT / "docs/results/default-run-2026-11-21.md").read_text()
    measured = re.search(r"\| trigger to verdict \| ([\d.]+) \|", results)
    assert promised is not None and measured is not None
    assert MINUTES[promised[1]] == round(float(measured[1]) / 60)

"""The inventory: a list of the files in the run directory, with links, and the states of the run's steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from delivery_verifier.model.steps import BEFORE_GATE, FILES, IF_APPLIED, STEPS
from delivery_verifier.reporting.material import Material
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

LINKED = 12
"""The greatest number of files of one folder that have links."""
DATA_DOCS = "../data_docs/index.html"
"""The address of Data Docs, relative to a page in a run directory."""


@dataclass(frozen=True)
class Part:
    """One part of the run directory: a file, or a folder with its files.

    `meaning`: what the part contains. `size`: the size as text. If there is no file, `size` is `missing` or `written
    with this page`. `links`: the relative address and the name of each file with a link. `more`: the number of files
    without a link.
    """

    name: str
    meaning: str
    size: str
    links: list[tuple[str, str]] = field(default_factory=list)
    more: int = 0


def parts(material: Material) -> list[Part]:
    """Returns all parts that a run directory can have, in the order of FILES. The result includes parts that this run
    directory lacks.

    With one exception: parts that only runs with an application have are left out if they are missing.
    """
    known_parts = []
    for name, meaning in FILES.items():
        path = material.path / name
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        if name in IF_APPLIED and not files:
            continue
        written_now = name == "report.html" or (name == "verdict.json" and material.verdict is not None)
        size = _size(sum(file.stat().st_size for file in files))
        if not files:
            size = "written with this page" if written_now else "missing"
        links = [_link(material.path, file) for file in files[:LINKED]]
        if written_now and not files:
            links = [(name, name)]
        known_parts.append(
            Part(name + ("/" if path.is_dir() else ""), meaning, size, links, max(0, len(files) - LINKED))
        )
    return known_parts


def _link(run: Path, file: Path) -> tuple[str, str]:
    """Returns the relative address of `file`, and the name of `file`.

    The address works in a page on disk and in a page that Airflow serves. Special characters are percent-encoded.
    """
    relative = file.relative_to(run).as_posix()
    return "./" + quote(relative), file.name


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


def steps(material: Material) -> list[tuple[str, str, float | None]]:
    """Returns every step of the run as (name, state in words, duration in s). The duration is None if the step has no
    manifest.

    A step writes its manifest when it finishes. The steps `conclude`, which writes this report, and `stop_cluster`
    finish only after the report is written. If one of these two steps has no manifest although there is a verdict, its
    state says that the step ends later.
    """
    rows: list[tuple[str, str, float | None]] = []
    for step in STEPS:
        ends_later = material.verdict is not None and step not in BEFORE_GATE
        try:
            manifest = RunDirectory(material.path).manifest(step)
        except IncompleteRun:
            state = "ends after this page was written" if ends_later else "no record that it finished"
            rows.append((step, state, None))
        else:
            rows.append((step, "finished", (manifest.finished_at_us - manifest.started_at_us) / 1e6))
    return rows

"""The matrix as Markdown, for a page of docs/results.

`python -m delivery_verifier.reporting.matrix.markdown ID [FILE]` writes the page of the catalogue run `ID`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from delivery_verifier.model.catalogue_run import CatalogueRun
from delivery_verifier.reporting.matrix import tables as matrix
from delivery_verifier.reporting.matrix.page import counts, explained, headline
from delivery_verifier.reporting.matrix.tables import ScenarioRow
from delivery_verifier.run_directory import catalogue_runs


def document(catalogue: CatalogueRun) -> str:
    """Returns the page as Markdown: date, machine and versions, then a table with a line per scenario and arm.

    A scenario may be run twice in one round of the catalogue run. A line shows the verdicts and the counts of the last
    run of the scenario in each round. A scenario without results has one line, which gives the reason.
    """
    all_tables = matrix.tables(catalogue)
    anomalies = list(dict.fromkeys(name for table in all_tables for name in table.counts))
    headings = ["scenario", "state", "attempts", "s each", "arm", "verdict", *anomalies, "gap", "p99", "refused"]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(catalogue.versions.items()))
    command = f"`kdv catalogue{' --direct' if catalogue.direct else ''}`"
    how = f"{command}, rounds: {catalogue.rounds}, asked for: {catalogue.wanted}"
    return "\n".join(
        [
            f"# Catalogue, {catalogue.started_at[:10]}",
            "",
            f"{how}; on {catalogue.machine}; commit {catalogue.commit}; {versions}.",
            "",
            f"{headline(catalogue)}: {counts(catalogue)}. {explained(catalogue)}".rstrip(),
            "",
            "Counts are those of all rounds, from the least to the greatest; gap and p99 are the greatest. An attempt "
            "that ended INCONCLUSIVE was run once more; both are counted.",
            "",
            f"| {' | '.join(headings)} |",
            f"|{'---|' * len(headings)}",
            *(line for table in all_tables for row in table.rows for line in _lines(row, anomalies)),
            "",
        ]
    )


def _lines(row: ScenarioRow, anomalies: Sequence[str]) -> Iterator[str]:
    """Yields the lines about one scenario. `anomalies`: the headings of the columns with the counts of anomalies."""
    seconds = sorted(attempt.seconds for _, attempt in row.runs)
    spent = f"{seconds[0]:.0f}–{seconds[-1]:.0f}" if seconds else "–"
    inconclusive = sum(attempt.state == "inconclusive" for _, attempt in row.runs)
    attempts = f"{len(row.runs)}" + (f", {inconclusive} inconclusive" if inconclusive else "")
    head = f"| `{row.name}` | {row.state} | {attempts} | {spent} "
    if not row.cells:
        yield f"{head}| {row.note.replace('|', '/')} |{' |' * (len(anomalies) + 4)}"
    for cell in (cell for cells in row.cells.values() for cell in cells):
        figures, counted = dict(cell.figures), dict(cell.counts)
        counts = [
            counted.get(name, "0") for name in anomalies
        ]  # "0": no arm has cases of a kind that its own table does not show
        arm = f"{cell.arm} ({cell.profile})" if "applied by" in cell.profile else cell.arm
        parts = [arm, cell.verdict, *counts, figures["gap"], figures["p99"], figures["refused"]]
        yield f"{head}| " + " | ".join(parts) + " |"
        head = "| | | | "


if __name__ == "__main__":
    record = catalogue_runs.read(sys.argv[1])
    default = Path("docs/results") / f"catalogue-{record.started_at[:10]}.md"
    (Path(sys.argv[2]) if len(sys.argv) > 2 else default).write_text(document(record), encoding="utf-8")

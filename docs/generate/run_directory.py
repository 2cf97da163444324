"""Generates the tables in docs/reference/run-directory.md from `run_directory.tables`: `python -m
docs.generate.run_directory [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

from delivery_verifier.run_directory.table import Table
from delivery_verifier.run_directory.tables import TABLES

MARK = "tables declared in plugins/delivery_verifier/run_directory/tables.py. -->\n"
"""The end of the comment that divides the page in two. `document` replaces only the part after this comment."""


def document(page: str) -> str:
    """Returns `page` with its tables generated anew from their declarations. Raises ValueError if `page` lacks MARK."""
    prose, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page lacks the comment that ends with {MARK!r}")
    return "\n".join([prose + mark, *map(_section, TABLES)]).rstrip() + "\n"


def _section(table: Table) -> str:
    """Returns the section about one table, which has one row for each column of that table."""
    lines = [
        f"### {table.name}",
        "",
        f"`{table.file}`: one row is {table.rows}.",
        "",
        "| column | type | null | unit | meaning |",
        "|---|---|---|---|---|",
    ]
    for column in table.columns:
        null = "yes" if column.nullable else ""
        lines.append(f"| `{column.name}` | {column.type} | {null} | {column.unit} | {column.meaning} |")
    return "\n".join([*lines, ""])


def main(arguments: list[str]) -> None:
    """Updates the page that `arguments` names, by default docs/reference/run-directory.md below the current folder."""
    file = Path(arguments[0] if arguments else "docs/reference/run-directory.md")
    file.write_text(document(file.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])

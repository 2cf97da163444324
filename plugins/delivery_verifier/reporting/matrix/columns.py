"""The columns of the map. The map is the table at the top of the page of the matrix. It has a row for each scenario.

The map has one column for each profile. For arms with an application, it has one column for each pair of profile and
application. The columns are the same in all rows, so that a reader can scan down one column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.reporting.matrix.tables import Table

_APPLIED = ", applied by "
"""The text between profile and application in the name of a column (see `profile_and_application`)."""
COMMON_PROFILE = "safe"
"""The profile of almost all arms with an application. The heading of a column leaves it out."""


@dataclass(frozen=True)
class Column:
    """A column of the map. `name`: the profile and, if there is one, the application, e.g. `safe, applied by
    commit_after`. `heading`: a short form of `name`, e.g. `commit_after`."""

    name: str
    heading: str
    is_application: bool


def columns(tables: Iterable[Table]) -> list[Column]:
    """Returns the columns of the map, for all of `tables`. Columns for profiles come first. Columns for pairs of
    profile and application follow.

    The profiles of the catalogue stand in the order of the catalogue, each with librdkafka first. Others follow.
    """
    names = dict.fromkeys(name for table in tables for name in table.columns)
    order = {name: position for position, name in enumerate(PROFILES)}

    def position(column: Column) -> tuple[bool, int, bool]:
        profile, has_client, _ = column.name.partition(", ")
        known = len(order) if column.is_application else order.get(profile, len(order))
        return column.is_application, known, bool(has_client) and not column.is_application

    return sorted((_column(name) for name in names), key=position)


def _column(name: str) -> Column:
    profile, applied, application = name.partition(_APPLIED)
    if not applied:
        return Column(name, name, is_application=False)
    heading = application if profile == COMMON_PROFILE else f"{application} ({profile})"
    return Column(name, heading, is_application=True)

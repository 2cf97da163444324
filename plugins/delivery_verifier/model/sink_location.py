"""The place where the effects of a user application (a program of the user's own) land: lines of text, Parquet files,
an output topic, or a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from delivery_verifier.model.data import Data

STDOUT = "stdout"
"""The value of `SinkLocation.where` for an application that writes its effects to its standard output."""
IN_FOLDER = "{folder}/"
"""A path that begins with this text is in the folder of a member."""

EffectsKind = Literal["lines", "files", "topic", "table"]
"""A kind of place. `lines`: text files. `files`: Parquet files. `topic`: the output topic of the arm. `table`: a table
of a database."""
OF_COLUMNS = ("producer", "sequence", "attempt")
"""The columns that name the record of an effect, if the identity is `columns`. A table also has the column TOPIC."""
TOPIC = "topic"
"""The column of a table that holds the name of the topic of the applied record."""


class SinkLocation(Data, frozen=True, kw_only=True):
    """The place where the effects of an application land, and how the reader finds out which record an effect belongs
    to.

    * `kind`: see EffectsKind.
    * `where`: for `lines` and `files`, a path of files, in which `*` stands for any text. The path begins with
      `{folder}/` or `/`. For `lines`, `stdout` is allowed, too. For a `table`, the environment variable that holds the
      URL of the database.
    * `table`: the name of the table, possibly with its schema in front, e.g. `sales.orders`.
    * `identity`: how an effect names its record. `value`: by the whole value of the record. `header`: by the first 60
      characters of the value. `columns`: by the columns in OF_COLUMNS, and in a table also by the column TOPIC.
    * `column`: for `files` and a `table`, the column that holds the value or header. For a `topic`, the part of the
      output record that holds the value or header: `value` or `key`.
    * `containing`: for `lines`, a text. Only lines with this text are effects.
    """

    kind: EffectsKind = "lines"
    where: Annotated[str, Meta(min_length=1)] = STDOUT
    table: str = ""
    identity: Literal["value", "header", "columns"] = "value"
    column: Annotated[str, Meta(min_length=1)] = "value"
    containing: str = ""

    @property
    def output(self) -> str:
        """`stdout` if the effects are lines on standard output, otherwise empty."""
        return self.where if self.kind == "lines" and self.where == STDOUT else ""

    @property
    def is_shared(self) -> bool:
        """Whether all members of an application write to one place. Nobody then sees which of them wrote an effect. The
        effect names its record all the same. The verifier reads the place once, as that of member 0."""
        return self.kind in ("topic", "table")


def several_at_one_path(effects: SinkLocation, members: int) -> str:
    """Returns a text that says what is wrong if several members write to the same files. Otherwise returns ""."""
    is_wrong = effects.where.startswith("/") and members > 1
    return "is one path for several members; write {folder}/ in front, or members = 1" if is_wrong else ""


def place_problems(effects: SinkLocation, members: int, variables: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yields each problem of `effects` as a pair: the name of a field, and a text with the problem and its remedy.

    The types of the fields were checked before. `variables` are the environment variables that the operator gives to
    the application.
    """
    if effects.kind == "table":
        yield from _table_problems(effects, variables)
    elif effects.table:
        yield "effects.table", f'is given, but kind is {effects.kind}; leave it out, or write kind = "table"'
    if effects.kind == "topic":
        yield from _topic_problems(effects)
    elif effects.kind in ("lines", "files"):
        yield from _path_problems(effects)
    if problem := several_at_one_path(effects, members):
        yield "effects.where" if effects.kind in ("lines", "files") else "effects.kind", problem
    if effects.kind in ("lines", "topic") and effects.identity == "columns":
        yield (
            "effects.identity",
            f'is columns, which a {effects.kind.rstrip("s")} does not have; write kind = "files" or "table", or '
            'identity = "value"',
        )
    if effects.kind != "lines" and effects.containing:
        yield "effects.containing", f'is about lines, but kind is {effects.kind}; leave it out, or write kind = "lines"'


def _table_problems(effects: SinkLocation, variables: Collection[str]) -> Iterator[tuple[str, str]]:
    if not re.fullmatch(r"[^\s.;'\"]+(\.[^\s.;'\"]+)?", effects.table):
        yield "effects.table", f"is {effects.table!r}; write the name of the table, e.g. orders or sales.orders"
    if effects.where not in variables:
        known = ", ".join(variables) or "none yet"
        yield (
            "effects.where",
            f"is {effects.where!r}; name the variable of [environment] or [connections] that holds the URL of the "
            f"database; there are: {known}",
        )


def _topic_problems(effects: SinkLocation) -> Iterator[tuple[str, str]]:
    if effects.where != STDOUT:
        yield "effects.where", "is given, but effects in a topic always land in {output.topic}; leave it out"
    if effects.column not in ("value", "key"):
        yield "effects.column", f"is {effects.column!r}; allowed for a topic: value, key; write one of them"


def _path_problems(effects: SinkLocation) -> Iterator[tuple[str, str]]:
    if effects.where == STDOUT:
        if effects.kind == "files":
            yield "effects.where", 'is stdout, but kind is files; write kind = "lines", or name Parquet files'
    elif not effects.where.startswith((IN_FOLDER, "/")) or ".." in Path(effects.where).parts:
        yield (
            "effects.where",
            f"is {effects.where!r}; allowed: stdout, and paths that begin with {{folder}}/ or /; write e.g. "
            "{folder}/out.jsonl",
        )
    if re.search(r"[?\[]|\*\*(?!/)|[^/]\*\*|/$", effects.where):
        yield "effects.where", f"is {effects.where!r}; of * ? [ only * is allowed, or **/ for any folders; name files"
    if effects.identity == "columns" and effects.where.startswith("/"):
        yield (
            "effects.identity",
            "is columns, and effects.where is outside {folder}: such rows name no run, so those of earlier runs would "
            'count; write {folder}/ in front of effects.where, or identity = "header"',
        )

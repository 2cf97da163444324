"""Generates the tables in docs/reference/control-block.md from `load.live_ledger` and `load.error_codes`:
`python -m docs.generate.control_block [FILE]`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path

from delivery_verifier.host.supervision.control_block import FILE, WORD_BYTES, WORDS
from delivery_verifier.load.error_codes import CLIENT_ERRORS, JAVA, JAVA_ERRORS, UNKNOWN, UNLISTED
from delivery_verifier.load.live_ledger import (
    ACKED_NOWHERE,
    COLUMNS,
    FAILED,
    INDETERMINATE,
    MOST_CODE,
    SENT,
    SLOTS,
    Gate,
    State,
    Word,
)

MARK = "tables declared in plugins/delivery_verifier/load. -->\n"
"""The end of the comment that divides the page in two. `document` replaces only the part after this comment."""


def document(page: str) -> str:
    """Returns `page` with its tables generated anew from the code. Raises ValueError if `page` lacks MARK."""
    prose, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"the page lacks the comment that ends with {MARK!r}")
    sections = (_words(), _numbers("States", State), _numbers("Gates", Gate), _columns(), _results(), _errors())
    return "\n".join([prose + mark, *sections]).rstrip() + "\n"


def _section(title: str, sentence: str, head: str, rows: Iterable[str]) -> str:
    columns = head.count("|") - 1
    return "\n".join([f"### {title}", "", sentence, "", head, "|" + "---|" * columns, *rows, ""])


def _words() -> str:
    size = f"`{FILE}`: {WORDS * WORD_BYTES} bytes, {WORDS} words of {WORD_BYTES} bytes. Words without a row are 0."
    rows = (f"| {word.offset} | `{word.name}` | {word.writer} | {word.meaning} |" for word in Word)
    return _section("Words", size, "| byte | word | written by | holds |", rows)


def _numbers(title: str, numbers: type[IntEnum]) -> str:
    rows = (f"| {number.value} | `{number.name}` |" for number in numbers)
    return _section(title, f"The numbers of the word `{title[:-1].upper()}`.", "| number | name |", rows)


def _columns() -> str:
    size = (
        f"`segment-NNNNNN`: {len(COLUMNS) * SLOTS * WORD_BYTES} bytes, {len(COLUMNS)} columns of {SLOTS} numbers. "
        f"The attempt to send record s has the number s mod {SLOTS} of each column of segment s div {SLOTS}."
    )
    rows = (
        f"| {index * SLOTS * WORD_BYTES} | `{name}` | {meaning} |"
        for index, (name, meaning) in enumerate(COLUMNS.items())
    )
    return _section("Slots", size, "| byte | column | holds |", rows)


def _results() -> str:
    rows = (
        "| 0 | | open: no report has come |",
        "| n > 0 | ACKED | acknowledged at offset n - 1 |",
        f"| {ACKED_NOWHERE} | ACKED | acknowledged without an offset |",
        f"| {SENT} | SENT | handed to the network, with acks=0 |",
        f"| {FAILED} - code | FAILED | certainly not written; code is 0 to {MOST_CODE} |",
        f"| {INDETERMINATE} - code | INDETERMINATE | ended with an error; code is 0 to {MOST_CODE} |",
    )
    return _section("Results", "The column `result`.", "| result | outcome | means |", rows)


def _errors() -> str:
    rows = (
        f"| 1 to {UNKNOWN - 1} | the error of Kafka's protocol with this number |",
        f"| {UNKNOWN} | `UNKNOWN_SERVER_ERROR`, which is -1 in Kafka's protocol |",
        *(f"| {code} | `{name}` |" for code, name in enumerate(CLIENT_ERRORS, UNKNOWN + 1)),
        *(f"| {code} | `{name}` |" for code, name in enumerate(JAVA_ERRORS, JAVA + 1)),
        f"| {UNLISTED} | any other error. The ledger calls it `UNLISTED` |",
    )
    sentence = "The codes of errors. A name with `_` is librdkafka's, one that ends with `Exception` the Java client's; the ledger has it in its column `error`."
    return _section("Error codes", sentence, "| code | error |", rows)


def main(arguments: list[str]) -> None:
    """Updates the page that `arguments` names, by default docs/reference/control-block.md below the current folder."""
    file = Path(arguments[0] if arguments else "docs/reference/control-block.md")
    file.write_text(document(file.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The page on the control block is the contract for producers with other clients. What it says is read from real files
here, with the page alone."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from delivery_verifier.load.error_codes import code_of
from delivery_verifier.load.live_ledger import (
    FAILED,
    INDETERMINATE,
    SLOTS,
    Control,
    Gate,
    LiveLedger,
    State,
    Word,
    encode_error,
    outcome_of,
)
from docs.generate.control_block import MARK, document, main

PAGE = Path(__file__).parents[3] / "docs/reference/control-block.md"


def rows(section: str) -> Iterator[list[str]]:
    """Yields the cells of each row of the table below the heading `section`, without marks of code."""
    table = PAGE.read_text().split(f"### {section}\n")[1].split("### ")[0]
    for line in table.splitlines()[4:]:
        if line.startswith("| "):
            yield [cell.strip().strip("`") for cell in line.strip("|").split("|")]


def test_the_page_has_the_tables_as_they_are_declared(tmp_path: Path) -> None:
    assert document(PAGE.read_text()) == PAGE.read_text(), "run `python -m docs.generate.control_block`"
    stale = tmp_path / "page.md"
    stale.write_text(PAGE.read_text().replace("| 16 | `REPORTED` |", "| 24 | `REPORTED` |"))
    assert stale.read_text() != PAGE.read_text()
    main([str(stale)])
    assert stale.read_text() == PAGE.read_text()
    with pytest.raises(ValueError, match="lacks the comment"):
        document(PAGE.read_text().replace(MARK, ""))


def test_every_word_stands_where_the_page_says(tmp_path: Path) -> None:
    control = Control(tmp_path)
    for number, word in enumerate(Word, 1):
        control[word] = -number
    content = (tmp_path / "control").read_bytes()
    found = {name: struct.unpack_from("<q", content, int(byte))[0] for byte, name, *_ in rows("Words")}
    assert found == {word.name: -number for number, word in enumerate(Word, 1)}
    size = re.search(r"`control`: (\d+) bytes", PAGE.read_text())
    assert size and len(content) == int(size[1])


def test_states_and_gates_are_those_of_the_page() -> None:
    assert {name: int(number) for number, name in rows("States")} == {each.name: each.value for each in State}
    assert {name: int(number) for number, name in rows("Gates")} == {each.name: each.value for each in Gate}


def test_every_column_of_a_segment_stands_where_the_page_says(tmp_path: Path) -> None:
    ledger, sequence = LiveLedger(tmp_path), SLOTS + 3
    ledger.open(sequence, 1, 12)
    segment = ledger.segments[1]
    segment.result[3], segment.settled[3] = 11, 13
    content = (tmp_path / "segment-000001").read_bytes()
    found = {name: struct.unpack_from("<q", content, int(byte) + 8 * 3)[0] for byte, name, _ in rows("Slots")}
    assert found == {"result": 11, "sent": 12, "settled": 13}
    size = re.search(r"`segment-NNNNNN`: (\d+) bytes", PAGE.read_text())
    assert size and len(content) == int(size[1])


def test_results_and_codes_mean_what_the_page_says() -> None:
    fixed = {result: outcome for result, outcome, _ in rows("Results")}
    assert {result: outcome_of(int(result)).value for result in ("-1", "-2")} == {"-1": fixed["-1"], "-2": fixed["-2"]}
    codes = {error: int(code) for code, error in rows("Error codes") if code.isdigit()}
    code = codes["_MSG_TIMED_OUT"]
    assert code == code_of(KafkaError._MSG_TIMED_OUT)
    for base, outcome in ((FAILED, "FAILED"), (INDETERMINATE, "INDETERMINATE")):
        assert fixed[f"{base} - code"] == outcome == outcome_of(encode_error(base, code)).value

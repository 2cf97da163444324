"""Malformed ledgers: a sound ledger in which one line is damaged at random is refused by line and column."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from delivery_verifier.audit.readers import read_ledger
from delivery_verifier.model.audit import LedgerFormat
from delivery_verifier.model.inputs import BadInput

MALFORMED, LINES = 100, 12
ANSWER = {"timestamp": 5, "name": "producer_send_success", "key": None, "topic": "t", "partition": 0}


def json_line(number: int) -> str:
    row = {"outcome": "acked", "id": f"order {number}", "partition": number % 3, "offset": number}
    return json.dumps(row | {"producer": "p", "sequence": number, "value_crc32": number * 7, "sent_at": 5})


def csv_line(number: int) -> str:
    return f"acked,order {number},{number % 3},{number},p,{number},{number * 7}" if number else CSV_NAMES


def answer(number: int) -> str:
    return json.dumps(ANSWER | {"value": f"7.{number}", "offset": number})


CSV_NAMES = "outcome,id,partition,offset,producer,sequence,value_crc32"
FORMS: dict[LedgerFormat, Callable[[int], str]] = {
    "jsonl": json_line,
    "csv": csv_line,
    "verifiable-producer": answer,
}


def damaged(rng: random.Random, line: str) -> str:
    """Returns the line with one damage: characters taken away, put in or replaced, or a value that is not allowed."""
    at = rng.randrange(len(line))
    end = at + rng.randrange(1, 9)
    junk = rng.choice(["", '"', "{", "}", ",", ":", "-1", "x", "\x01", "null", "9" * 20, "1.5", "é", "\\"])
    return line[:at] + junk + line[rng.choice([at, end]) :]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_line_is_refused_by_its_line_and_column(tmp_path: Path, form: LedgerFormat) -> None:
    rng, refused, file = random.Random(7), 0, tmp_path / "acks"
    for _ in range(100 * MALFORMED):
        if refused == MALFORMED:
            break
        lines = [FORMS[form](number) for number in range(LINES)]
        wrong = rng.randrange(form == "csv", LINES - 1)  # a torn last line is no error
        lines[wrong] = damaged(rng, lines[wrong])
        file.write_text("\n".join([*lines, ""]))
        try:
            read_ledger([file], form, tmp_path / "claims.parquet", rng.choice([100, 1 << 20]))
        except BadInput as error:
            refused += 1
            message = str(error)
            assert "\n" not in message, message
            assert re.search(rf"line {wrong + 1}, column \d+: ", message) or (
                re.search(r"given in .*, line \d+, and missing in .*, line \d+", message)
                and re.search(rf", line {wrong + 1}\b", message)
            ), (lines[wrong], message)
    assert refused == MALFORMED


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('{"outcome":"failed","id":"x","partition":0,"offset":1}', "line 2, column 53: offset is given"),
        ('{"outcome":"acked","id":"x","offset":1}', "line 2, column 38: partition is missing beside an offset"),
    ],
)
def test_fields_that_do_not_fit_together_are_refused_by_their_place(tmp_path: Path, line: str, place: str) -> None:
    (tmp_path / "acks").write_text(f'{{"outcome":"acked","id":"a"}}\n{line}\n')
    with pytest.raises(BadInput, match=place):
        read_ledger([tmp_path / "acks"], "jsonl", tmp_path / "claims.parquet")


def test_fields_of_csv_that_do_not_fit_together_are_refused_by_their_place(tmp_path: Path) -> None:
    (tmp_path / "acks").write_text("outcome,id,partition,offset\nacked,a,0,1\nfailed,b,0,2\n")
    with pytest.raises(BadInput, match="line 3, column 12: offset is given"):
        read_ledger([tmp_path / "acks"], "csv", tmp_path / "claims.parquet")

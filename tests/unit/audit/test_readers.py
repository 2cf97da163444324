"""Tests of the readers of foreign ledgers: what they take, and how they name the place of what they refuse."""

from __future__ import annotations

import json
import random
import re
import zlib
from pathlib import Path
from typing import Any, get_args

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delivery_verifier.audit import readers, verifiable
from delivery_verifier.audit.columns import COLUMNS
from delivery_verifier.audit.readers import Claims, read_ledger
from delivery_verifier.model.audit import LedgerFormat
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.ledger_line import LedgerHead, LedgerLine, schema

Row = dict[str, Any]
SUCCESS = '{"timestamp":5,"name":"producer_send_success","key":null,"value":"%s","offset":%d,"topic":"t","partition":0}'
END = '{"kdv_ledger_end": 1, "attempts": %d}'
TOOL_DATA = '{"timestamp":9,"name":"tool_data","sent":%d,"acked":%d,"target_throughput":-1,"avg_throughput":7.5}'


def rows(count: int) -> list[Row]:
    return [
        {"outcome": "acked", "id": f"order {n}, é", "partition": n % 3, "offset": n, "producer": "p", "sequence": n}
        for n in range(count)
    ]


def lines(made: list[Row]) -> list[str]:
    return [json.dumps(row, ensure_ascii=False) for row in made]


def read(folder: Path, text: str | bytes, form: LedgerFormat = "jsonl", size: int = 200) -> Claims:
    """Reads a ledger in blocks of `size` bytes, so that lines are cut in the middle."""
    file = folder / "acks"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_ledger([file], form, folder / "claims.parquet", size)


def stored(claims: Claims) -> list[Row]:
    return [{k: v for k, v in row.items() if v is not None} for row in pq.read_table(claims.file).to_pylist()]


def test_the_columns_are_the_fields_of_a_line_and_the_schema_names_them() -> None:
    assert COLUMNS.names == [field.name for field in msgspec.structs.fields(LedgerLine)]
    published = schema()["$defs"]
    assert [*published["LedgerLine"]["properties"]] == COLUMNS.names
    assert [*published["LedgerHead"]["properties"]] == [field.name for field in msgspec.structs.fields(LedgerHead)]
    assert {*readers._PARTS} == {*get_args(LedgerFormat)}


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_each_format_gives_the_same_claims_whatever_the_size_of_a_block(tmp_path: Path, form: LedgerFormat) -> None:
    made = rows(50)
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(made), tmp_path / "acks")
    elif form == "csv":
        body = [",".join(f'"{value}"' if key == "id" else str(value) for key, value in row.items()) for row in made]
        (tmp_path / "acks").write_text("\n".join([",".join(made[0]), *body, ""]))
    else:
        (tmp_path / "acks").write_text("\n".join([*lines(made), ""]))
    first = 2 if form == "csv" else 1
    expected = [{**row, "line": n, "file": 0} for n, row in enumerate(made, first)]
    for size in (64, 333, 1 << 20):
        claims = read_ledger([tmp_path / "acks"], form, tmp_path / "claims.parquet", size)
        assert stored(claims) == expected
        assert (claims.count, claims.ordered, claims.told.cut, claims.without_offset) == (50, True, "", 0)


def test_the_head_says_what_the_ledger_is_and_counts_as_a_line(tmp_path: Path) -> None:
    head = {"kdv_ledger": 1, "topic": "orders", "identity": "key", "complete": True, "failed_because": "never queued"}
    claims = read(tmp_path, "\n".join([json.dumps(head), *lines(rows(3)), END % 3, ""]))
    assert (claims.told.topic, claims.told.identity, claims.told.complete) == ("orders", "key", True)
    assert [row["line"] for row in stored(claims)] == [2, 3, 4]


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_torn_last_line_is_left_out_and_said(tmp_path: Path, cut: int) -> None:
    text = "\n".join(lines(rows(4)))[:-cut]
    claims = read(tmp_path, text)
    assert claims.count == 3
    assert claims.told.cut == "line 4 of acks, its last, is torn"


def test_a_whole_last_line_counts_without_an_end_of_line_but_not_in_csv(tmp_path: Path) -> None:
    assert read(tmp_path, "\n".join(lines(rows(4)))).count == 4
    # 12 may be what is left of 123
    claims = read(tmp_path, "outcome,id,partition,offset\nacked,a,0,11\nacked,b,0,12", "csv")
    assert claims.count == 1
    assert "may be torn" in claims.told.cut


WRONG: tuple[tuple[str, str], ...] = (
    ("{", "column "),
    ("", "the line is empty"),
    ("[1]", "Expected `object`"),
    ('"text"', "Expected `object`"),
    ("acked", "column 1"),
    ('{"outcome":"acked","id":"x"} {"outcome":"acked","id":"y"}', "trailing"),
    ('{"outcome":"acked","id":"x"}}', "trailing"),
    ('{"outcome":"acked","id":"x","id":"y"}', "twice"),
    ('{"outcome":"acked","id":7}', "id: Expected `str"),
    ('{"outcome":"acked","id":""}', "id: Expected `str` of length"),
    ('{"outcome":"acked","id":null}', "; give it in every line or in none"),
    ('{"outcome":"Acked","id":"x"}', "outcome: Invalid enum"),
    ('{"outcome":null,"id":"x"}', "outcome: Expected"),
    ('{"id":"x"}', "outcome: Object missing"),
    ('{"outcome":"acked","id":"x","offse":1}', "offse: Object contains unknown"),
    ('{"outcome":"acked","id":"x","partition":0,"offset":-1}', "offset: Expected `int` >= 0"),
    ('{"outcome":"acked","id":"x","partition":0,"offset":1.5}', "offset: Expected `int"),
    ('{"outcome":"acked","id":"x","partition":0,"offset":"1"}', "offset: Expected `int"),
    ('{"outcome":"acked","id":"x","partition":0,"offset":true}', "offset: Expected `int"),
    ('{"outcome":"acked","id":"x","partition":0,"offset":99999999999999999999}', "offset: Expected `int` <="),
    ('{"outcome":"acked","id":"x","partition":0.0,"offset":1}', "partition: Expected `int"),
    ('{"outcome":"acked","id":"x","offset":1}', "column 38: partition is missing beside an offset"),
    ('{"outcome":"failed","id":"x","partition":0,"offset":1}', "only an acked attempt has one"),
    ('{"outcome":"acked","id":"x","attempt":-1}', "attempt: Expected `int` >= 0"),
    ('{"outcome":"acked","id":"x","value_crc32":4294967296}', "value_crc32: Expected `int` <="),
    ('{"outcome":"acked","id":"x","value_sha256":"ABC"}', "value_sha256: Expected `str` matching"),
    ('{"outcome":"acked","id":"x","sent_at":-5}', "sent_at: Expected `int` >= 0"),
    ('{"outcome":"acked","id":"x","settled_at":9999999999999999}', "settled_at: Expected `int` <="),
    ('{"outcome":"acked","id":"x","producer":"p"}', "; give it in every line or in none"),
    ('{"outcome":"acked","id":"x","sequence":3}', "; give it in every line or in none"),
    ("{'outcome':'acked'}", "column "),
    ('{"outcome":"acked","id":"x",}', "trailing comma"),
    ('{"outcome":"acked" "id":"x"}', "column "),
    ('{"outcome":"acked","id":"x","partition":01,"offset":1}', "column "),
    ('{"outcome":"acked","id":"x","partition":NaN}', "column "),
    ('{"outcome":"acked","id":"\x01"}', "column "),
)


@pytest.mark.parametrize("where", [0, 1, 7])
@pytest.mark.parametrize(("line", "told"), WRONG)
def test_a_malformed_line_is_refused_by_line_and_column(tmp_path: Path, line: str, told: str, where: int) -> None:
    good = [json.dumps({"outcome": "acked", "id": f"x{n}"}) for n in range(9)]
    text = "\n".join([*good[:where], line, *good[where:], ""])
    for size in (40, 1 << 20):
        with pytest.raises(BadInput) as refused:
            read(tmp_path, text, size=size)
        message = str(refused.value)
        assert "\n" not in message and told in message, message
        assert re.search(rf", line {where + 1}\b", message), message


def test_bytes_that_are_no_text_are_refused_by_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"line 2, column 27: the text is not UTF-8"):
        read(tmp_path, b'{"outcome":"acked","id":"a"}\n{"outcome":"acked","id":"b\xff"}\n')


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("acked,a,0,x", "line 2, column 11: offset: "),
        ("acked,a,0", "line 2, column 1: the line has 3 fields; the first line names 4"),
        ("acked,a,0,1,2", "line 2, column 1: the line has 5 fields"),
        ("", "line 2, column 1: the line is empty"),
        ("acked,,0,1", "line 2; give it in every line or in none"),
        ("maybe,a,0,1", "line 2, column 1: outcome: "),
        ("acked,a,0,-1", "line 2, column 11: offset: "),
        ("acked,a,0,0x1", "line 2, column 11: offset: "),
        ("acked,a,0, 1", "line 2, column 11: offset: "),
        ("acked,a,0,1.0", "line 2, column 11: offset: "),
        (",a,0,1", "outcome: "),
    ],
)
def test_a_malformed_line_of_csv_is_refused_by_line_and_column(tmp_path: Path, body: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(tmp_path, f"outcome,id,partition,offset\n{body}\nacked,b,0,2\n", "csv")
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("names", "told"),
    [("outcome,id,ofset", "'ofset' is no column; did you mean offset?"), ("outcome,id,id", "a column is named twice")],
)
def test_wrong_names_of_columns_are_refused(tmp_path: Path, names: str, told: str) -> None:
    with pytest.raises(BadInput, match=re.escape(told)):
        read(tmp_path, f"{names}\nacked,a,1\n", "csv")


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("offset", [1.5, 2.5], "the column offset is double"),
        ("id", [1, 2], "the column id is int64"),
        ("offset", ["1", "2"], "the column offset is string"),
        ("offset", [1, -2], "row 2: Expected `int` >= 0"),
        ("outcome", ["acked", "done"], "row 2: Invalid enum value 'done'"),
        ("offsets", [1, 2], "'offsets' is no column of a ledger; did you mean offset?"),
        ("partition", [1, 1 << 40], "rows 1 to 2"),
    ],
)
def test_wrong_parquet_is_refused_by_row_and_column(tmp_path: Path, column: str, values: list[Any], told: str) -> None:
    table = {"outcome": ["acked"] * 2, "id": ["a", "b"], "partition": [0, 0], "offset": [1, 2], column: values}
    pq.write_table(pa.table(table), tmp_path / "acks")
    with pytest.raises(BadInput, match=re.escape(told)):
        read_ledger([tmp_path / "acks"], "parquet", tmp_path / "claims.parquet")


def test_an_answer_of_verifiable_producer_is_a_claim_and_its_end_tells_whether_all_are_there(tmp_path: Path) -> None:
    start = '{"timestamp":1,"name":"startup_complete"}'
    error = '{"timestamp":6,"name":"producer_send_error","value":"7.3","topic":"t","exception":"X","message":"m"}'
    answers = [start, *(SUCCESS % (f"7.{n}", n) for n in range(3)), error]
    killed = read(tmp_path, "\n".join([*answers, ""]), "verifiable-producer")
    assert (dict(killed.outcomes), killed.told.topic) == ({"acked": 3, "unknown": 1}, "t")
    assert not killed.told.complete and "ends without tool_data" in killed.told.cut
    torn = read(tmp_path, "\n".join([*answers, SUCCESS % ("7.4", 3)])[:-9], "verifiable-producer")
    assert torn.count == 4 and "line 6 of acks, its last, is torn" in torn.told.cut
    end = '{"timestamp":8,"name":"shutdown_complete"}'
    whole = read(tmp_path, "\n".join([*answers, end, TOOL_DATA % (4, 3), ""]), "verifiable-producer")
    assert whole.told.complete and whole.told.cut == ""
    assert stored(whole)[3] | {"line": 0} == {
        "outcome": "unknown", "id": "7.3", "producer": "7", "sequence": 3, "settled_at": 6, "error": "X",
        "line": 0, "file": 0,
    }  # fmt: skip
    more = read(tmp_path, "\n".join([*answers, end, TOOL_DATA % (5, 3), ""]), "verifiable-producer")
    assert not more.told.complete and "tool_data says 5" in more.told.cut


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"timestamp":1,"name":"producer_sent"}', "line 2, column 1: `name` is none of"),
        ('{"timestamp":1}', "line 2"),
        ('{"timestamp":1,"name":"producer_send_success","value":"1"}', "line 2, column 1: an answer lacks"),
        (SUCCESS.replace(',"partition":0', "") % ("1", 1), "line 2, column 1: producer_send_success lacks partition"),
    ],
)
def test_a_line_that_verifiable_producer_does_not_print_is_refused(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(tmp_path, "\n".join([SUCCESS % ("0", 0), line, SUCCESS % ("2", 2), ""]), "verifiable-producer")
    assert told in str(refused.value)


def test_several_files_are_one_ledger_and_complete_only_if_all_are(tmp_path: Path) -> None:
    for name, complete, first in (("a", True, 0), ("b", False, 3)):
        head = json.dumps({"kdv_ledger": 1, "complete": complete})
        (tmp_path / name).write_text("\n".join([head, *lines(rows(6)[first : first + 3]), ""]))
    claims = read_ledger([tmp_path / "a", tmp_path / "b"], "jsonl", tmp_path / "claims.parquet")
    assert (claims.count, claims.told.complete, claims.names) == (6, False, ("a", "b"))
    assert [(row["file"], row["line"]) for row in stored(claims)] == [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)]


COMPLETE = '{"kdv_ledger": 1, "complete": true}'


@pytest.mark.parametrize("size", [64, 1 << 20])
def test_a_ledger_is_complete_only_if_its_last_line_counts_its_attempts(tmp_path: Path, size: int) -> None:
    killed = read(tmp_path, "\n".join([COMPLETE, *lines(rows(3)), ""]), size=size)
    assert (killed.told.complete, killed.told.cut) == (False, "")
    for last in ("\n", ""):
        whole = read(tmp_path, "\n".join([COMPLETE, *lines(rows(3)), END % 3]) + last, size=size)
        assert (whole.count, whole.told.complete, whole.told.cut) == (3, True, "")
    short = read(tmp_path, "\n".join([COMPLETE, *lines(rows(3)), END % 4, ""]), size=size)
    assert short.told.cut == "acks has 3 attempts, and its last line says 4"
    with pytest.raises(BadInput, match=r"line [56], "):
        read(tmp_path, "\n".join([COMPLETE, *lines(rows(3)), END % 3, *lines(rows(5)[4:]), ""]), size=size)
    with pytest.raises(BadInput, match=r"line 3, column .*attempts"):
        read(tmp_path, "\n".join([*lines(rows(2)), '{"kdv_ledger_end": 1, "attempts": -1}', ""]), size=size)


def test_why_a_failed_attempt_was_not_written_holds_for_its_own_file_alone(tmp_path: Path) -> None:
    failed = {"outcome": "failed", "id": "a"}
    (tmp_path / "a").write_text("\n".join(['{"kdv_ledger": 1, "failed_because": "refused"}', json.dumps(failed), ""]))
    (tmp_path / "b").write_text(json.dumps({**failed, "id": "b"}) + "\n")
    claims = read_ledger([tmp_path / "a", tmp_path / "b"], "jsonl", tmp_path / "claims.parquet")
    assert [row["outcome"] for row in stored(claims)] == ["failed", "unknown"]
    assert claims.told.failed_because == "refused"


def test_a_file_that_holds_only_its_head_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("\n".join([COMPLETE, *lines(rows(3)), END % 3, ""]))
    (tmp_path / "b").write_text(COMPLETE + "\n")
    claims = read_ledger([tmp_path / "a", tmp_path / "b"], "jsonl", tmp_path / "claims.parquet")
    assert claims.told.empty == ("b",) and not claims.told.complete


def test_a_ledger_without_claims_or_without_identities_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a file with at least one claim"):
        read(tmp_path, "")
    with pytest.raises(BadInput, match="no line has an id, or producer and sequence"):
        read(tmp_path, '{"outcome":"acked"}\n')
    with pytest.raises(BadInput, match="producer and sequence belong together"):
        read(tmp_path, '{"outcome":"acked","id":"a","sequence":1}\n')


def test_a_random_change_of_one_byte_is_read_as_python_reads_it_or_refused(tmp_path: Path) -> None:
    """The reader that is quick must not take what the strict one refuses, nor read it otherwise."""
    rng = random.Random(43)
    good = [
        {"outcome": "acked", "id": f"o{n}", "partition": n % 2, "offset": n, "value_crc32": zlib.crc32(b"%d" % n)}
        for n in range(6)
    ]
    for _ in range(300):
        data = bytearray("\n".join([*lines(good), ""]).encode())
        data[rng.randrange(len(data) - 1)] = rng.choice(b'"{}[]:,\\ 019-.eaz\n\x00\xff')
        try:
            strict = [
                msgspec.json.decode(line, type=LedgerLine) for line in bytes(data).removesuffix(b"\n").split(b"\n")
            ]
        except (msgspec.DecodeError, UnicodeDecodeError):
            with pytest.raises(BadInput):
                read(tmp_path, bytes(data))
            continue
        try:
            claims = read(tmp_path, bytes(data))
        except BadInput:
            continue  # refused for what fields mean together
        found = [{k: v for k, v in row.items() if k not in ("line", "file")} for row in stored(claims)]
        assert found == [{k: v for k, v in msgspec.structs.asdict(row).items() if v is not None} for row in strict]


def test_the_lines_of_verifiable_producer_have_the_types_that_are_read() -> None:
    assert {field.name for field in msgspec.structs.fields(verifiable.Line)} == {*verifiable.LINES.names}

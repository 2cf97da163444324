"""Tests of the matching: random histories with random columns missing, against an oracle of what can be known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import oracle
from support.foreign_histories import History, random_history
from support.matched_ledgers import check_random_history, judged, match_history, matched, stored, written

from delivery_verifier.audit import queries
from delivery_verifier.audit.canary import LEAST, Planter
from delivery_verifier.audit.matching import FOUND, Bounds, Matching, match
from delivery_verifier.audit.readers import WRITTEN, read_ledger
from delivery_verifier.audit.request import AuditRequest
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.run_directory.cases import record_name
from delivery_verifier.run_directory.record_history import claims_of

Row = dict[str, Any]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_histories_show_what_can_be_known_of_them_and_nothing_else(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 10):
        check_random_history(tmp_path, seed)


def a_history(*claims: Row, found: list[Row] | None = None, **more: Any) -> History:
    rows = [{"outcome": "acked", "line": number, **claim} for number, claim in enumerate(claims, 1)]
    return History(claims=rows, found=found or [], starts={0: 0}, **more)


def a_record(offset: int, name: str | None) -> Row:
    return {"partition": 0, "offset": offset, "id": name, "producer": None, "sequence": None, "hash": None}


def test_two_claims_of_one_id_are_refused_with_both_lines_unless_their_attempts_differ(tmp_path: Path) -> None:
    twice = a_history({"id": "a"}, {"id": "b"}, {"id": "a"}, found=[a_record(0, "a")])
    with pytest.raises(BadInput, match=r"id a is claimed twice: acks.jsonl, line 2 and acks.jsonl, line 4; if it was"):
        matched(tmp_path, twice)
    numbered = a_history({"id": "a", "attempt": 0}, {"id": "a", "attempt": 1}, found=[a_record(0, "a")])
    _, rows, _ = matched(tmp_path, numbered)
    assert [row["attempt"] for row in rows] == [0, 1]
    again = a_history({"id": "a", "attempt": 1}, {"id": "a", "attempt": 1})
    with pytest.raises(BadInput, match=r"attempt 1 of id a is claimed twice: .*line 2 and acks.jsonl, line 3$"):
        matched(tmp_path, again)
    number = {"producer": "p", "sequence": 7}
    with pytest.raises(BadInput, match=r"sequence 7 of producer p is claimed twice: .*line 2 and .*line 3"):
        matched(tmp_path, a_history({"id": "a", **number}, {"id": "b", **number}))
    there = [a_record(0, "a"), a_record(1, "b")]
    with pytest.raises(BadInput, match=r"sequence 7 of producer p is claimed twice: .*line 2 and .*line 3"):
        matched(tmp_path, a_history({"id": "a", **number}, {"id": "b", **number}, found=there))


def test_each_attempt_and_each_phantom_has_its_claim_and_what_the_ledger_has_has_its_line(tmp_path: Path) -> None:
    found = [a_record(0, "a"), a_record(1, "b"), a_record(2, "stranger")]
    _, rows, log = matched(tmp_path, a_history({"id": "a", "offset": 0, "partition": 0}, {"id": "b"}, found=found))
    named = claims_of(tmp_path, "own", [*rows, *log])
    by_id = {"a (acks.jsonl, line 2)", "b (acks.jsonl, line 3)", "stranger"}
    assert set(named.values()) == by_id and named.keys() == {record_name(row) for row in [*rows, *log]}
    _, rows, log = matched(tmp_path, a_history({"id": "a"}, found=found[::2], complete=True))
    (phantom,) = [row for row in log if row["sequence"] > 1]
    assert claims_of(tmp_path, "own", [phantom]) == {record_name(phantom): "stranger"}, "whoever claims it"
    assert claims_of(tmp_path, "another", [phantom]) == claims_of(tmp_path / "x", "own", [phantom]) == {}


def test_a_claim_of_a_partition_that_the_topic_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"acks.jsonl, line 2: partition is 3, .*; allowed: 0 to 0"):
        matched(tmp_path, a_history({"id": "a", "partition": 3, "offset": 1}))


def test_an_offset_that_two_were_told_is_named_with_both_lines(tmp_path: Path) -> None:
    claims = [{"id": name, "partition": 0, "offset": 5} for name in "ab"]
    result, _, _ = matched(tmp_path, a_history(*claims, found=[a_record(5, "a")]))
    assert (result.shared, result.shared_acks) == (1, 2)
    assert result.examples["shared"] == "partition 0, offset 5: acks.jsonl, line 2 and acks.jsonl, line 3"


def test_a_torn_ledger_that_says_that_it_is_complete_has_no_phantoms(tmp_path: Path) -> None:
    """What stands in the log, and not in the ledger, may have been in the line that is torn."""
    file = tmp_path / "acks.jsonl"
    file.write_text('{"kdv_ledger":1,"complete":true}\n{"outcome":"acked","id":"a"}\n{"outcome":"acked","id":"b')
    claims = read_ledger([file], "jsonl", tmp_path / "claims.parquet")
    asked = AuditRequest(
        run_id="r", files=(file,), format="jsonl", topic="t", access=ClusterAccess(), identity="key", complete=True
    )  # fmt: skip
    audit = asked.joined(claims).audit(claims)
    assert audit.complete and audit.cut
    found = [{**a_record(0, "a"), "timestamp": 0}, {**a_record(1, "b"), "timestamp": 0}]
    pq.write_table(pa.Table.from_pylist(found, schema=FOUND), tmp_path / "found.parquet")
    files = tmp_path / "claims.parquet", tmp_path / "found.parquet"
    sides = Matching("own", 1, "token", *files, claims.names, {0: Bounds(0, 2)}, audit, 7)
    match(sides, written(tmp_path), tmp_path)
    rows, log = (pq.read_table(tmp_path / f"{name}.parquet").to_pylist() for name in ("ledger", "log"))
    assert judged(rows, log)["PHANTOM"] == 0 and len(rows) == 2


CRC = {"value_crc32": 7}


def acked(name: str, offset: int, **more: Any) -> Row:
    return {"id": name, "partition": 0, "offset": offset, **more}


def test_a_record_without_an_identity_at_an_acknowledged_offset_is_found_by_its_checksum(tmp_path: Path) -> None:
    nameless = a_record(0, None) | {"hash": "7"}
    result, rows, log = matched(tmp_path, a_history(acked("a", 0, **CRC), found=[nameless]))
    assert judged(rows, log)["LOST"] == 0 and result.foreign_writers == 0 and result.picks == []
    assert (result.unproven["adopted"], result.unproven["unproven_lost"]) == (1, 0)


@pytest.mark.parametrize("hashed", [{}, {"value_crc32": 8}])
def test_a_loss_where_a_record_without_an_identity_stands_is_not_proven(tmp_path: Path, hashed: Row) -> None:
    nameless = a_record(0, None) | {"hash": "7"}
    claims = [acked("a", 0, **hashed), acked("b", 1, **hashed)]
    result, rows, log = matched(tmp_path, a_history(*claims, found=[nameless, a_record(2, "c")]))
    assert judged(rows, log)["LOST"] == 2
    assert (result.unproven["unidentified"], result.unproven["unproven_lost"]) == (1, 1)


def test_a_copy_elsewhere_is_not_proven_misplaced_if_a_record_without_an_identity_may_be_the_acknowledged_one(
    tmp_path: Path,
) -> None:
    nameless = a_record(0, None)
    result, rows, log = matched(tmp_path, a_history(acked("a", 0), found=[nameless, a_record(3, "a")]))
    assert judged(rows, log)["MISPLACED"] == result.unproven["unproven_misplaced"] == 1


def test_a_loss_without_an_offset_is_not_proven_while_a_record_without_an_identity_is_left(tmp_path: Path) -> None:
    result, _, _ = matched(tmp_path, a_history({"id": "a"}, {"id": "b"}, found=[a_record(0, None)]))
    assert result.unproven["unproven_lost"] == 1


def test_what_the_application_sent_again_is_never_out_of_order(tmp_path: Path) -> None:
    def send(name: str, number: int, attempt: int, **more: Any) -> Row:
        return {"id": name, "producer": "p", "sequence": number, "attempt": attempt, **more}

    claims = [
        send("a", 0, 0, outcome="unknown"),
        send("b", 1, 0, partition=0, offset=0),
        send("a", 0, 1, partition=0, offset=1),
    ]
    found = [a_record(0, "b"), a_record(1, "a")]
    result, rows, log = matched(tmp_path, a_history(*claims, found=found))
    assert judged(rows, log)["REORDERED"] == 0
    assert (result.unproven["resent"], result.unproven["unordered"]) == (1, 0)
    late = [send("a", 0, 0, partition=0, offset=1), claims[1]]
    _, rows, log = matched(tmp_path, a_history(*late, found=found))
    assert judged(rows, log)["REORDERED"] == 1
    only = [send("a", 0, 1, partition=0, offset=1), claims[1]]  # nothing shows when it was sent first
    result, rows, log = matched(tmp_path, a_history(*only, found=found))
    assert judged(rows, log)["REORDERED"] == 0 and result.unproven["unordered"] == 1


def test_a_copy_that_may_be_of_another_attempt_is_counted_as_guessed(tmp_path: Path) -> None:
    first = {"id": "a", "attempt": 0, "outcome": "unknown"}
    again = acked("a", 0, attempt=1)
    copies = [a_record(0, "a"), a_record(1, "a")]
    for claims, found, guessed in (
        ([first, again], copies, 1),
        ([first, again], copies[:1], 0),
        ([first, again], copies[1:], 1),
        ([first, {**first, "attempt": 1}], copies[:1], 0),
        ([acked("a", 1, attempt=0), again], copies, 0),
    ):
        result, _, _ = matched(tmp_path, a_history(*claims, found=found))
        assert result.unproven["guessed"] == guessed, claims


def ended(name: str, how: str | None, offset: int | None, attempt: int = 0, **more: Any) -> Row:
    """A claim that was acknowledged, and how its transaction ended."""
    where = {} if offset is None else {"partition": 0, "offset": offset}
    return {"id": name, "attempt": attempt, "transaction_outcome": how, **where, **more}


def test_a_visible_record_at_the_offset_of_an_aborted_attempt_is_no_copy_of_what_was_sent_again(tmp_path: Path) -> None:
    claims = [ended("a", "aborted", 0), ended("b", "committed", 1), ended("a", "committed", 2, 1)]
    found = [a_record(0, "a"), a_record(1, "b"), a_record(2, "a")]
    result, rows, log = matched(tmp_path, a_history(*claims, found=found, complete=True))
    counts = judged(rows, log)
    assert (counts["PHANTOM"], counts["DUPLICATED"], result.unproven["aborted_found"]) == (1, 0, 1)
    assert (result.unproven["guessed"], result.unproven["unproven_duplicated"]) == (0, 0)


def test_a_record_at_the_offset_of_two_attempts_is_not_of_the_aborted_one(tmp_path: Path) -> None:
    """The first one's record was cut off, and the other took its place."""
    claims = [ended("a", "aborted", 0), ended("a", "committed", 0, 1)]
    _, rows, log = matched(tmp_path, a_history(*claims, found=[a_record(0, "a")], complete=True))
    assert not judged(rows, log)["PHANTOM"] + judged(rows, log)["LOST"]


@pytest.mark.parametrize(("how", "unproven"), [("aborted", 1), ("committed", 0)])
def test_a_copy_is_not_proven_if_it_may_be_of_an_aborted_attempt_without_an_offset(
    tmp_path: Path, how: str, unproven: int
) -> None:
    claims = [ended("a", how, None, outcome="unknown"), ended("a", "committed", 2, 1)]
    found = [a_record(offset, "a") for offset in range(3 - unproven, -1, -1)]
    result, rows, log = matched(tmp_path, a_history(*claims, found=found, complete=True))
    assert judged(rows, log)["DUPLICATED"] == 1
    assert result.unproven["unproven_duplicated"] == unproven


def hidden_record(offset: int, name: str, how: str = "aborted") -> Row:
    return a_record(offset, name) | {"hidden": how}


def test_a_record_elsewhere_convicts_nobody_while_the_one_at_the_acknowledged_offset_is_open(tmp_path: Path) -> None:
    claims = [ended("a", "unknown", None, outcome="unknown"), ended("a", "committed", 2, 1)]
    for how, misplaced in (("open", 0), ("aborted", 1)):
        found = [a_record(0, "a"), hidden_record(2, "a", how)]
        result, rows, log = matched(tmp_path, a_history(*claims, found=found, complete=True))
        assert judged(rows, log)["MISPLACED"] == result.unproven["committed_hidden_there"] == misplaced
        assert result.unproven["transaction_unknown"] == 1 - misplaced


@pytest.mark.parametrize("how", ["committed", "unknown"])
def test_the_hidden_record_of_another_attempt_excuses_no_loss(tmp_path: Path, how: str) -> None:
    claims = [ended("a", "aborted", 0), ended("a", how, 2, 1)]
    found = [hidden_record(0, "a"), a_record(3, "b")]
    result, rows, log = matched(tmp_path, a_history(*claims, found=found))
    assert judged(rows, log)["LOST"] == 1
    assert (result.unproven["committed_hidden"], result.unproven["transaction_unknown"]) == (0, 0)
    found.append(hidden_record(1, "a"))  # nothing says whose this is
    result, _, _ = matched(tmp_path, a_history(*claims, found=found))
    assert result.unproven["committed_hidden"] == (how == "committed")
    assert result.unproven["transaction_unknown"] == (how == "unknown")


@pytest.mark.parametrize(("how", "doubtful"), [("committed", 1), ("unknown", 0), ("aborted", 0)])
def test_a_hidden_record_of_an_unanswered_send_is_a_doubt_if_its_transaction_was_committed(
    tmp_path: Path, how: str, doubtful: int
) -> None:
    claims = [ended("a", how, None, outcome="unknown")]
    for record, doubt in ((hidden_record(0, "a"), doubtful), (a_record(0, "a"), 0)):
        result, _, _ = matched(tmp_path, a_history(*claims, found=[record]))
        assert result.unproven["transaction_unknown"] == doubt


def test_an_expired_claim_with_a_record_elsewhere_is_counted(tmp_path: Path) -> None:
    history = a_history(acked("a", 5), acked("b", 6), found=[a_record(30, "a")])
    history.starts = {0: 10}
    result, _, _ = matched(tmp_path, history)
    assert (result.expired, result.unproven["expired_present"]) == (2, 1)


def test_claims_that_are_older_than_every_record_are_counted(tmp_path: Path) -> None:
    for start, sent_at, at_us, younger in ((0, 1, 1001, 1), (0, 1, 1000, 0), (0, None, 1001, 0), (1, 1, 1001, 0)):
        history = a_history(acked("a", 1, sent_at=sent_at), found=[a_record(1, "b")])
        history.starts = {0: start}
        result, _, _ = matched(tmp_path, history, at_us)
        assert (result.unproven["younger"], result.unproven["unproven_lost"]) == (younger, younger)


def test_a_null_value_does_not_contradict_the_checksum_of_an_empty_one(tmp_path: Path) -> None:
    for crc, corrupted in ((0, 0), (7, 1)):
        history = a_history(acked("a", 0, value_crc32=crc), found=[a_record(0, "a")])
        result, rows, log = matched(tmp_path, history)
        assert judged(rows, log)["CORRUPTED"] == corrupted
        assert result.unproven["tombstones"] == 1 - corrupted


def test_numbers_of_expired_claims_are_no_gap(tmp_path: Path) -> None:
    claims = [acked(name, n, producer="p", sequence=n) for n, name in enumerate("abc")]
    claims[0]["offset"], claims[1]["offset"] = 12, 1
    history = a_history(*claims[:2], acked("c", 13, producer="p", sequence=3), found=[a_record(12, "a")])
    history.starts = {0: 10}
    assert matched(tmp_path, history)[0].gaps == 1


@pytest.mark.slow
def test_the_canary_of_any_ledger_shows_exactly_what_was_planted(tmp_path: Path) -> None:
    kinds = Counter[str]()
    for seed in range(60):
        history = random_history(seed)
        result, audit = match_history(tmp_path, history)
        if len(result.picks) < LEAST:
            continue
        places = {(row["partition"], row["offset"]): {"timestamp": 0, "is": row} for row in history.found}
        canary = Planter(result.picks, places, audit).lay_out()
        of_nobody = dict.fromkeys(("id", "producer", "sequence", "hash"))
        found = [
            {"timestamp": 0, **{name: row.get("is", of_nobody)[name] for name in of_nobody}}
            | {"partition": 0, "offset": row["offset"]}
            for row in canary.records
        ]
        pq.write_table(pa.Table.from_pylist(found, schema=FOUND), tmp_path / "found.parquet")
        pq.write_table(pa.Table.from_pylist(canary.claims, schema=WRITTEN), tmp_path / "claims.parquet")
        files = tmp_path / "claims.parquet", tmp_path / "found.parquet"
        sides = Matching("canary", 0, "token", *files, ("canary",), {0: Bounds(0, len(found))}, audit, 7)
        counted = match(sides, written(tmp_path), tmp_path)
        rows, log = stored(tmp_path)
        tally, _ = oracle.judge(rows, [row for row in log if row["parsed"]], [], routed=False)
        foreign_writers = sum(not row["parsed"] for row in log)
        tally.update(unattributed=foreign_writers, log_records=foreign_writers)
        assert dict(+tally) == {name: count for name, count in canary.expected.items() if count}, (seed, audit)
        assert counted.shared == canary.shared
        kinds.update(
            name
            for name in ("lost", "duplicated", "misplaced", "reordered", "resent", "corrupted", "phantom")
            if tally[name]
        )
    assert len(kinds) == 7, "each kind was planted in some ledger"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
def test_identities_with_one_hash_are_told_apart(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all hashes are unique, most claims are plain. If few are, most are not. Both match in the same way."""
    result = matched(tmp_path, random_history(seed))
    expected = result[0], *map(_in_any_order, result[1:])
    for weak in ("hash(k1, k2) % 9", "0::UBIGINT"):
        monkeypatch.setattr(queries, "HASH", weak)
        again = matched(tmp_path, random_history(seed))
        assert (again[0], *map(_in_any_order, again[1:])) == expected


def _in_any_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)

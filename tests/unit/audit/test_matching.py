"""Tests of the matching: random histories with random columns missing, against an oracle of what can be known."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import oracle
from support.foreign_histories import History, known, random_history

from delivery_verifier.audit.matching import FOUND, Bounds, Matched, Matching, match
from delivery_verifier.audit.readers import read_ledger
from delivery_verifier.audit.request import AuditRequest
from delivery_verifier.store import ledger

Row = dict[str, Any]


def matched(folder: Path, history: History) -> tuple[Matched, list[Row], list[Row]]:
    """Returns the counts, the ledger and the log that the matching makes of `history`."""
    file = folder / "acks.jsonl"
    rows = [{k: v for k, v in claim.items() if v is not None and k != "line"} for claim in history.claims]
    head = {"kdv_ledger": 1, "complete": history.complete, "failed_because": history.failed_because}
    file.write_text("".join(json.dumps(row) + "\n" for row in [head, *rows]))
    claims = read_ledger([file], "jsonl", folder / "claims.parquet")
    identity = "value:regex:(?<producer>.+)/(?<sequence>.+)" if history.in_parts else "header:id"
    asked = AuditRequest(
        run_id="r", files=(file,), format="jsonl", topic="t", bootstrap_servers="b", identity=identity,
        others_write=history.others_write,
    )  # fmt: skip
    audit = asked.joined(claims).audit(claims)
    found = [{**row, "timestamp": 0} for row in history.found]
    pq.write_table(pa.Table.from_pylist(found, schema=FOUND), folder / "found.parquet")
    bounds = {number: Bounds(start, history.ends[number]) for number, start in history.starts.items()}
    sides = Matching(
        "own", 1, "token", folder / "claims.parquet", folder / "found.parquet", claims.names, bounds, audit, 7
    )
    result = match(sides, folder / "ledger.parquet", folder / "log.parquet", folder, 20)
    ledger.check_schema(folder / "ledger.parquet")
    return result, *(pq.read_table(folder / f"{name}.parquet").to_pylist() for name in ("ledger", "log"))


def judged(rows: list[Row], log: list[Row]) -> Counter[str]:
    """Returns how many attempts or records show each kind, as the project's oracle counts them.

    A stranger's record has no owner in an audit, so the oracle does not see it.
    """
    strangers = [row for row in log if not row["parsed"]]
    assert all(row["foreign"] for row in strangers)
    books, _ = oracle.judge(rows, [row for row in log if row["parsed"]], [])
    kinds = ("CORRUPTED", "PHANTOM", "LOST", "DUPLICATED", "RESENT", "MISPLACED", "REORDERED")
    counts = Counter({kind: books[kind.lower()] + books[f"also_{kind.lower()}"] for kind in kinds})
    counts["attempted"] = books["attempted"]
    return counts


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_random_histories_show_what_can_be_known_of_them_and_nothing_else(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 10):
        history = random_history(seed)
        result, rows, log = matched(tmp_path, random_history(seed))
        expected = known(history)
        if expected["ambiguous"]:  # two claims of one offset, at which a damaged record stands
            continue
        hidden = Counter(judged(rows, log))
        names = ("strangers", "unclaimed", "expired", "unknowable", "shared", "past_the_end")
        found = hidden | Counter({name: getattr(result, name) for name in names})
        for name in {*expected, *found}:
            assert found[name] == expected[name], (seed, name, history)
        assert len(log) == len(history.found)
        assert result.attempts == len(rows) == expected["attempted"]
        assert len(rows) == len(history.claims) + result.inferred - result.left_out

"""Histories of somebody else's ledger and topic, as the matching of an audit turns them into a ledger and a log."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.audit.matching import FOUND, Bounds, Matched, Matching, Written, match
from delivery_verifier.audit.readers import read_ledger
from delivery_verifier.audit.request import AuditRequest
from delivery_verifier.cluster.protocol.batches import Hidden
from delivery_verifier.model.audit import Audit
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.run_directory import ledger
from support import oracle
from support.foreign_histories import History, known, random_history

Row = dict[str, Any]
OF_TRANSACTIONS = (
    "transaction_unknown",
    "committed_hidden",
    "committed_hidden_there",
    "aborted_found",
    "sent_again",
    "failed_elsewhere",
)
KINDS = ("CORRUPTED", "PHANTOM", "LOST", "DUPLICATED", "RESENT", "MISPLACED", "REORDERED")


def matched(folder: Path, history: History, at_us: int = 0) -> tuple[Matched, list[Row], list[Row]]:
    """Returns the counts, the ledger and the log that the matching makes of `history`."""
    result, _ = match_history(folder, history, at_us)
    return result, *stored(folder)


def written(folder: Path) -> Written:
    """Returns the files that a matching writes to `folder`."""
    (folder / "claims").mkdir(exist_ok=True)
    return Written(folder / "ledger.parquet", folder / "log.parquet", folder / "claims" / "own.parquet")


def stored(folder: Path) -> tuple[list[Row], list[Row]]:
    """Returns the ledger and the log that the matching has written to `folder`."""
    ledger.check_schema(folder / "ledger.parquet")
    rows, log = (pq.read_table(folder / f"{name}.parquet").to_pylist() for name in ("ledger", "log"))
    return rows, log


def match_history(folder: Path, history: History, at_us: int = 0) -> tuple[Matched, Audit]:
    """Matches `history`, in files below `folder`. All records have the time `at_us`. Returns the counts, and what is
    known of the ledger."""
    file = folder / "acks.jsonl"
    rows = [{k: v for k, v in claim.items() if v is not None and k != "line"} for claim in history.claims]
    head = {"kdv_ledger": 1, "complete": history.complete, "failed_because": history.failed_because}
    end = {"kdv_ledger_end": 1, "attempts": len(rows)}
    file.write_text("".join(json.dumps(row) + "\n" for row in [head, *rows, end]))
    claims = read_ledger([file], "jsonl", folder / "claims.parquet")
    identity = "value:regex:(?<producer>.+)/(?<sequence>.+)" if history.in_parts else "header:id"
    asked = AuditRequest(
        run_id="r", files=(file,), format="jsonl", topic="t", access=ClusterAccess(), identity=identity,
        others_write=history.others_write,
    )  # fmt: skip
    audit = asked.joined(claims).audit(claims)
    found = [{**row, "timestamp": at_us} for row in history.found]
    pq.write_table(pa.Table.from_pylist(found, schema=FOUND), folder / "found.parquet")
    bounds = {number: Bounds(start, history.ends[number]) for number, start in history.starts.items()}
    hidden = [
        Hidden(row["partition"], row["offset"], row["offset"] + 1, row["hidden"] == "open")
        for row in history.found
        if row.get("hidden")
    ]
    files = folder / "claims.parquet", folder / "found.parquet"
    sides = Matching("own", 1, "token", *files, claims.names, bounds, audit, 7, hidden)
    return match(sides, written(folder), folder, 60), audit


def judged(rows: list[Row], log: list[Row]) -> Counter[str]:
    """Returns how many attempts or records show each kind, as the project's oracle counts them.

    A foreign writer's record has no owner in an audit, so the oracle does not see it.
    """
    strangers = [row for row in log if not row["parsed"]]
    assert all(row["foreign"] for row in strangers)
    tally, _ = oracle.judge(rows, [row for row in log if row["parsed"]], [], routed=False)
    counts = Counter({kind: tally[kind.lower()] + tally[f"also_{kind.lower()}"] for kind in KINDS})
    counts["attempted"] = tally["attempted"]
    return counts


def check_random_history(folder: Path, seed: int) -> None:
    """Matches the random history `seed`. Fails unless it shows what can be known of it, and nothing else."""
    history = random_history(seed)
    result, rows, log = matched(folder, random_history(seed))
    expected = known(history)
    if expected["ambiguous"]:  # two claims of one offset, at which a damaged record stands
        return
    names = ("foreign_writers", "unclaimed", "expired", "unknowable", "shared", "past_the_end", "aborted_records")
    found = judged(rows, log) + Counter({name: getattr(result, name) for name in (*names, "open_records")})
    found += Counter({name: result.unproven[name] for name in OF_TRANSACTIONS})
    for name in {*expected, *found}:
        assert found[name] == expected[name], (seed, name, history)
    assert len(log) == len(history.found)
    assert result.attempts == len(rows) == expected["attempted"]
    assert len(rows) == len(history.claims) + result.inferred - result.left_out

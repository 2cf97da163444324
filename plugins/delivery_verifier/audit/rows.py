"""The queries for the rows of the ledger, the log and claims/ that an audit writes, and its counts.

They run after the steps of `queries`. `numbered` has a row per attempt: a plain claim with its record, or a row of
`kept`.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.audit.queries import FILE, INFERRED, OTHERS, OUTCOME, agrees, born
from delivery_verifier.model.audit import Audit

RUNS = f"""CREATE TABLE runs AS SELECT line // {FILE} AS file, min(line) AS first, count(*) AS lines,
        (sum(count(*)) OVER (ORDER BY file) - count(*))::BIGINT AS before,
        max(line) - min(line) + 1 = count(*) AS is_whole
    FROM (SELECT line FROM kept UNION ALL SELECT line FROM plain) GROUP BY file"""
"""By file: where its claims begin, and how many stand in the files before."""
ALL_RUN_ON = "SELECT coalesce(bool_and(is_whole), true) FROM runs"
"""Whether no line is missing between the first and the last of a file. Then the rank of a claim is known from its line,
without a sort."""


def numbering(audit: Audit, lines_run_on: bool) -> Iterator[str]:
    """Yields the queries that number producers, sequences, and the attempts of each producer in each partition.
    `lines_run_on`: what ALL_RUN_ON found.

    Without an order of sending, attempts are numbered as they stand in the log, so that none looks late. The same holds
    for what the application sent again (attempt > 0): its number says when it was sent first.
    """
    yield """CREATE TABLE producers AS SELECT name, (row_number() OVER (ORDER BY name) - 1)::INTEGER AS producer
        FROM (SELECT name FROM kept UNION SELECT name FROM plain)"""
    last = "9223372036854775807"
    every = f"""
        SELECT line, producer, number, attempt, outcome, "partition" AS location, "offset" AS stands,
            "partition" AS place, line AS born, "timestamp", true AS is_plain FROM plain JOIN producers USING (name)
        UNION ALL SELECT line, producer, number, attempt, outcome::{OUTCOME},
            coalesce(copy."partition", kept."partition", 0), copy."offset",
            coalesce(kept."partition", copy."partition", 0), born, NULL, false
        FROM (SELECT *, {born(audit)} AS born FROM kept) AS kept
            JOIN producers USING (name) LEFT JOIN first_copy AS copy USING (k1, k2, attempt)"""
    ranked = f" JOIN runs ON file = line // {FILE}" if lines_run_on else ""
    sequence = _sequence(audit, lines_run_on)
    columns = f'line, producer, {sequence} AS sequence, attempt, outcome, place, stands, "timestamp", is_plain'
    if not audit.attempts:  # nothing was sent again, so the numbers alone give the order: one window less
        yield f"""CREATE TABLE numbered AS SELECT * EXCLUDE (location, rank), row_number() OVER (
                PARTITION BY producer, location ORDER BY rank, line) - 1 AS partition_sequence
            FROM (SELECT {columns}, location, coalesce(number, stands, {last}) AS rank FROM ({every}){ranked})"""
        return
    yield f"""CREATE TABLE numbered AS SELECT {columns}, row_number() OVER (PARTITION BY producer, location ORDER BY
            CASE WHEN is_resent THEN coalesce(top, -1) ELSE coalesce(number, stands, {last}) END, is_resent,
            CASE WHEN is_resent THEN coalesce(stands, {last}) END, line, attempt) - 1 AS partition_sequence
        FROM (SELECT *, max(CASE WHEN outcome IN ('ACKED', 'SENT') AND NOT is_resent AND stands IS NOT NULL
                THEN number END) OVER (PARTITION BY producer, location ORDER BY coalesce(stands, {last})) AS top
            FROM (SELECT *, attempt > 0 AND number IS NOT NULL AS is_resent FROM ({every})))"""


def _sequence(audit: Audit, lines_run_on: bool) -> str:
    """Returns the expression for the sequence of an attempt: its number, or the rank of its identity by line. Without
    attempts, each line has an identity of its own."""
    if audit.identity.in_parts:
        return "number"
    if audit.attempts:
        return "dense_rank() OVER (ORDER BY born) - 1"
    return "line - first + before" if lines_run_on else "row_number() OVER (ORDER BY line) - 1"


_PHANTOM = '(SELECT count(*) FROM numbered) + 1000000000000 + "offset" * 4096 + "partition"'
"""The sequence of a record that was never attempted: one that no attempt has."""


def ledger_and_claims(in_parts: bool) -> str:
    """Returns the query for the rows of the ledger, and, in the columns `claim`, `file` and `line`, of claims/.
    Parameters: the arm, and the names of the ledger's files."""
    columns = 'line, k1, k2, "offset", settled, sent_at, settled_at, error, is_inferred'
    return f"""
    SELECT $1::VARCHAR AS arm, producer::INTEGER AS producer, 0::INTEGER AS "session", sequence::BIGINT AS sequence,
        attempt::INTEGER AS attempt, place::INTEGER AS "partition", partition_sequence::BIGINT AS partition_sequence,
        outcome::VARCHAR AS outcome, CASE WHEN outcome = 'ACKED' THEN "offset" END AS "offset",
        NULL::VARCHAR AS "transaction", NULL::VARCHAR AS transaction_outcome,
        make_timestamptz(coalesce(coalesce(sent_at, settled_at) * 1000, getvariable('at_us')::BIGINT)) AS sent_at,
        CASE WHEN outcome <> 'INDETERMINATE' OR settled_at IS NOT NULL THEN make_timestamptz(settled) END AS settled_at,
        error, CASE WHEN is_inferred THEN 'log' ELSE 'client' END AS made_by, {_claim(in_parts)} AS claim,
        CASE WHEN NOT is_inferred THEN list_extract($2::VARCHAR[], line // {FILE} + 1) END AS file,
        CASE WHEN NOT is_inferred THEN line % {FILE} END AS line
    FROM (SELECT {columns}, true AS is_plain FROM claimed UNION ALL SELECT {columns}, false FROM kept)
        JOIN numbered USING (line, is_plain)"""


def phantoms(in_parts: bool) -> str:
    """Returns the query for the rows of claims/ of records that were never attempted. Parameter: the arm."""
    return f"""SELECT $1::VARCHAR AS arm, 0 AS producer, 0 AS "session", {_PHANTOM} AS sequence, 0 AS attempt,
        {_claim(in_parts)} AS claim, NULL::VARCHAR AS file, NULL::BIGINT AS line FROM phantom"""


def _claim(in_parts: bool) -> str:
    return "format('{} {}', k1, k2)" if in_parts else "k1"


LOG = f"""
WITH lines AS (
    SELECT found."partition", found."offset", found."timestamp", producer, sequence, kept.attempt, partition_sequence,
        {agrees("kept.hash", "found.hash")} AS agrees, phantom."offset" IS NOT NULL AS is_phantom
    FROM (SELECT * FROM found UNION ALL SELECT * EXCLUDE (is_open) FROM hidden) AS found
    LEFT JOIN owned USING ("partition", "offset")
    LEFT JOIN kept ON (kept.k1, kept.k2, kept.attempt) = (owned.k1, owned.k2, owned.attempt)
    LEFT JOIN numbered ON numbered.line = kept.line
    LEFT JOIN phantom ON (phantom."partition", phantom."offset") = (found."partition", found."offset")
    UNION ALL SELECT place, stands, "timestamp", producer, sequence, attempt, partition_sequence, true, false
    FROM numbered WHERE is_plain
)
SELECT $1::VARCHAR AS arm, "partition", "offset", 'raw' AS "view", "timestamp",
    CASE WHEN known THEN $2 END AS header_run, CASE WHEN known THEN $3::INTEGER END AS header_arm,
    CASE WHEN is_phantom THEN 0 ELSE producer END::INTEGER AS producer,
    CASE WHEN known THEN 0 END::INTEGER AS "session",
    CASE WHEN is_phantom THEN {_PHANTOM} ELSE sequence END::BIGINT AS sequence,
    CASE WHEN is_phantom THEN 0 ELSE attempt END::INTEGER AS attempt,
    CASE WHEN is_phantom THEN 0 ELSE partition_sequence END::BIGINT AS partition_sequence,
    known AS parsed, known AND agrees AS crc_ok, NOT known AS "foreign"
FROM (SELECT *, is_phantom OR producer IS NOT NULL AS known FROM lines)"""
"""The rows of the log. Parameters: the arm, the run's token, the arm's ordinal."""

ANNOUNCED = f"""SELECT producer, outcome::VARCHAR, count(*) FILTER (line < {INFERRED}), count(*) FROM numbered
    GROUP BY ALL"""
"""By producer and outcome: how many attempts are claimed, and how many there are."""
_SHARED = """SELECT "partition", "offset", list(line ORDER BY line) AS places, count(*) AS acks
    FROM (SELECT "partition", "offset", line, outcome::VARCHAR AS outcome FROM claim WHERE "offset" IS NOT NULL
        UNION ALL SELECT "partition", "offset", line, outcome FROM plain SEMI JOIN claim USING ("partition", "offset")
        WHERE has_offset)
    WHERE outcome = 'ACKED' GROUP BY "partition", "offset" HAVING count(*) > 1"""
_PAST = """SELECT "partition", "offset", [line] AS places FROM claim JOIN bounds USING ("partition")
    WHERE outcome = 'ACKED' AND "offset" >= "end" """
COUNTS = {
    "producers": "SELECT count(*) FROM producers",
    "expired": "SELECT count(*) FROM expired",
    "unknowable": "SELECT count(*) FROM unknowable",
    "past_the_end": f"SELECT count(*) FROM ({_PAST})",
    "shared": f"SELECT count(*) FROM ({_SHARED})",
    "shared_acks": f"SELECT sum(acks) FROM ({_SHARED})",
    "foreign_writers": "SELECT count(*) FROM found WHERE k1 IS NULL OR k2 IS NULL",
    "unclaimed": "SELECT count(*) FROM unclaimed",
    "aborted_records": "SELECT count(*) FROM hidden WHERE NOT is_open",
    "open_records": "SELECT count(*) FROM hidden WHERE is_open",
    "inferred": "SELECT count(*) FROM kept WHERE is_inferred",
    "left_out": "SELECT (SELECT count(*) FROM claim) - (SELECT count(*) FROM kept WHERE NOT is_inferred)",
    "gaps": f"""SELECT sum(coalesce(last - first + 1 - numbers, 0)) FROM (SELECT max(number) AS last,
        min(number) AS first, count(DISTINCT number) AS numbers FROM (SELECT name, number FROM claim UNION ALL
        SELECT name, number FROM plain UNION ALL SELECT name, number FROM kept WHERE is_inferred)
        WHERE number IS NOT NULL AND name <> {OTHERS} GROUP BY name)""",
}
"""The counts of `Matched`, by name."""
EXAMPLES = {
    name: f'{query} ORDER BY "partition", "offset", places LIMIT 1'
    for name, query in (("past_the_end", _PAST), ("shared", _SHARED))
}
"""The first case of some counts: partition, offset, and the lines of claims."""
PICKS = f"""
WITH single AS (
    SELECT k1, k2 FROM owned GROUP BY k1, k2 HAVING count(*) = 1
), sound AS (
    SELECT kept.line, found."partition" AS found_partition, found."offset" AS found_offset
    FROM kept SEMI JOIN single USING (k1, k2) ANTI JOIN several USING (k1, k2) ANTI JOIN adopted USING (k1, k2)
        JOIN found USING (k1, k2)
    WHERE told AND NOT is_inferred AND (kept."offset" IS NULL
        OR (kept."offset" = found."offset" AND kept."partition" = found."partition"))
        AND (kept.hash IS NULL OR kept.hash = found.hash)
    UNION ALL SELECT line, "partition", "offset" FROM plain WHERE outcome IN ('ACKED', 'SENT')
), first AS (
    SELECT * FROM sound ORDER BY found_partition, found_offset LIMIT $2
)
SELECT given.*, found_partition, found_offset FROM read_parquet($1) AS given
JOIN first ON first.line = given.file * {FILE} + given.line ORDER BY found_partition, found_offset"""
"""Claims with exactly one, sound record: the first ones in the log. Parameters: the file of claims, and how many."""

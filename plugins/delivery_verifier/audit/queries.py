"""The queries by which DuckDB matches the claims of a foreign ledger with the records found in its topic.

`k1` and `k2` identify a record: its id and 0, or its producer and sequence. `name` and `number` give the order of
sending, if it is known. A claim is `told` if the client reported it (acked or sent).

A topic with transactions is judged as a read_committed consumer sees it: `found` has no record that is `hidden` from
it, because its transaction was aborted or has not ended (docs/adr/0033). `ended` is how the transaction of a claim
ended, as the ledger says. A claim of an aborted one counts as FAILED: certainly not written into this view.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.model.audit import Audit

OTHERS = "chr(0)"
"""The name of the producer of attempts whose producer is not known, beside claims whose producer is known."""
EMPTY = "('0', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')"
"""The checksums of an empty value, by CRC-32 and SHA-256."""
FILE = 1 << 40
"""The place of a claim is the number of its file times FILE, plus its line."""


def key(in_parts: bool) -> str:
    """Returns the expressions for `k1` and `k2`."""
    return "producer AS k1, sequence AS k2" if in_parts else "id AS k1, 0::BIGINT AS k2"


def claims(audit: Audit, identity: str) -> str:
    """Returns the query that loads the claims. Failed attempts count as INDETERMINATE unless the application says why
    they were certainly not written."""
    failed, aborted = "FAILED" if audit.failed_because else "INDETERMINATE", "transaction_outcome = 'aborted'"
    hashed = {"": "NULL::VARCHAR", "crc32": "value_crc32::VARCHAR", "sha256": "value_sha256"}[audit.hash]
    order = "'' AS name, NULL::BIGINT AS number"
    if audit.identity.in_parts or (audit.ordered and not audit.attempts):
        order = "producer AS name, sequence AS number"
    elif audit.ordered:  # an id that several producers sent has no place in the order of one of them
        alone = "min(producer) OVER (PARTITION BY id) = max(producer) OVER (PARTITION BY id)"
        order = (
            f"CASE WHEN {alone} THEN producer ELSE {OTHERS} END AS name, CASE WHEN {alone} THEN sequence END AS number"
        )
    return f"""
    CREATE TABLE claim AS SELECT {identity}, {order}, file * {FILE} + line AS line, coalesce(attempt, 0) AS attempt,
        CASE WHEN {aborted} THEN 'FAILED' WHEN outcome = 'acked' THEN 'ACKED' WHEN outcome = 'sent' THEN 'SENT'
        WHEN outcome = 'failed' THEN '{failed}' ELSE 'INDETERMINATE' END AS outcome,
        outcome IN ('acked', 'sent') AND ({aborted}) IS NOT TRUE AS told,
        coalesce(coalesce(settled_at, sent_at) * 1000, getvariable('at_us')::BIGINT) AS settled,
        "partition", "offset", {hashed} AS hash, sent_at, settled_at, error,
        coalesce(transaction_outcome, 'unknown') AS ended, false AS is_inferred
    FROM read_parquet(?)"""


def records(identity: str) -> str:
    """Returns the query that loads the records found."""
    return f"""
    CREATE TABLE found AS SELECT "partition", "offset", "timestamp", {identity}, hash FROM read_parquet(?)"""


def doubles(audit: Audit) -> Iterator[str]:
    """Yields queries for claims that are the same attempt: what it is, its number, and where two of them stand."""
    places = "list(line ORDER BY line)[1:2]"
    what = "format('{} {}', k1, k2)" if audit.identity.in_parts else "'id ' || k1"
    yield f"""SELECT {what}, attempt, {places} FROM claim GROUP BY k1, k2, attempt HAVING count(*) > 1
        ORDER BY min(line) LIMIT 1"""
    if audit.ordered and not audit.identity.in_parts:
        yield f"""SELECT format('sequence {{}} of producer {{}}', number, name), attempt, {places} FROM claim
            WHERE number IS NOT NULL GROUP BY name, number, attempt HAVING count(*) > 1 ORDER BY min(line) LIMIT 1"""


OUTSIDE = """SELECT line, "partition" FROM claim ANTI JOIN bounds USING ("partition")
    WHERE "partition" IS NOT NULL ORDER BY line LIMIT 1"""
"""A claim of a partition that the topic does not have."""


def steps(audit: Audit, some_are_hidden: bool) -> Iterator[str]:
    """Yields the queries that match, in order. `some_are_hidden`: whether the table `hidden_ranges` has rows."""
    yield from _hide(some_are_hidden)
    yield from _adopt()
    yield from _assign()
    yield from _expire()
    yield from _veil()
    yield from _keep()
    yield from _infer(audit)
    yield from _copies(audit)
    yield from _number(audit)


def _hide(some_are_hidden: bool) -> Iterator[str]:
    """Moves the records that no read_committed consumer gets from `found` to `hidden`."""
    if not some_are_hidden:
        yield "CREATE TABLE hidden AS SELECT *, false AS is_open FROM found WHERE false"
        return
    yield """CREATE TABLE hidden AS SELECT found.*, is_open FROM found ASOF JOIN hidden_ranges AS part
        ON found."partition" = part."partition" AND found."offset" >= part."first" WHERE found."offset" < part."end" """
    yield """DELETE FROM found WHERE ("partition", "offset") IN (SELECT ("partition", "offset") FROM hidden)"""


def _adopt() -> Iterator[str]:
    """Gives records without an identity to the claim that was acknowledged at their offset, if the checksums agree and
    no record has the claim's identity: an identity may miss a record, and a record that is there is not LOST."""
    yield """CREATE TABLE adopted AS
        SELECT found."partition", found."offset", arg_min(claim.k1, line) AS k1, arg_min(claim.k2, line) AS k2
        FROM found JOIN claim ON (claim."partition", claim."offset") = (found."partition", found."offset")
        WHERE (found.k1 IS NULL OR found.k2 IS NULL) AND outcome = 'ACKED' AND claim.hash = found.hash
            AND NOT EXISTS (SELECT 1 FROM found AS named WHERE (named.k1, named.k2) = (claim.k1, claim.k2))
        GROUP BY ALL"""
    yield """UPDATE found SET k1 = adopted.k1, k2 = adopted.k2 FROM adopted
        WHERE (found."partition", found."offset") = (adopted."partition", adopted."offset")"""


def _assign() -> Iterator[str]:
    """Gives each record to an attempt of its identity.

    If an identity has several attempts, a record at an acknowledged offset belongs to this attempt, also if its
    transaction was aborted. The others are given out in the order of the log, first to reported attempts. Records
    beyond the number of attempts go to the first.
    FAILED attempts get other records only if there is no other attempt.
    """
    yield """CREATE TABLE several AS SELECT k1, k2, bool_and(outcome = 'FAILED') AS all_failed FROM claim
        GROUP BY k1, k2 HAVING count(*) > 1"""
    yield """CREATE TABLE able AS SELECT claim.*, all_failed OR outcome <> 'FAILED' AS is_able
        FROM claim JOIN several USING (k1, k2)"""
    yield """CREATE TABLE exact AS SELECT found."partition", found."offset", k1, k2,
            arg_min(attempt, (NOT is_able, attempt)) AS attempt
        FROM found JOIN able USING (k1, k2)
        WHERE found."partition" = able."partition" AND found."offset" = able."offset"
        GROUP BY ALL"""
    yield """CREATE TABLE others AS
        WITH lines AS (
            SELECT "partition", "offset", k1, k2,
                row_number() OVER (PARTITION BY k1, k2 ORDER BY "offset", "partition") AS nth
            FROM found SEMI JOIN several USING (k1, k2) ANTI JOIN exact USING ("partition", "offset")
        ), free AS (
            SELECT k1, k2, attempt, row_number() OVER (PARTITION BY k1, k2 ORDER BY told DESC, attempt) AS nth
            FROM able ANTI JOIN exact USING (k1, k2, attempt) WHERE is_able
        ), first AS (
            SELECT k1, k2, arg_min(attempt, (CASE WHEN told THEN 0 ELSE 1 END, attempt)) AS attempt
            FROM able WHERE is_able GROUP BY k1, k2
        )
        SELECT lines."partition", lines."offset", k1, k2, coalesce(free.attempt, first.attempt) AS attempt
        FROM lines LEFT JOIN free USING (k1, k2, nth) JOIN first USING (k1, k2)"""
    yield """CREATE TABLE owned AS
        SELECT found."partition", found."offset", k1, k2, claim.attempt
        FROM found JOIN claim USING (k1, k2) ANTI JOIN several USING (k1, k2)
        UNION ALL SELECT * FROM exact UNION ALL SELECT * FROM others"""
    yield "CREATE TABLE present AS SELECT DISTINCT k1, k2, attempt FROM owned"


def _expire() -> Iterator[str]:
    """Finds acked claims whose offset the log no longer has, and claims that may have expired."""
    yield """CREATE TABLE expired AS SELECT k1, k2, attempt FROM claim JOIN bounds USING ("partition")
        WHERE outcome = 'ACKED' AND "offset" < "start" """
    yield """CREATE TABLE unknowable AS SELECT k1, k2, attempt FROM claim ANTI JOIN present USING (k1, k2, attempt)
        WHERE told AND "offset" IS NULL AND (SELECT max("start") FROM bounds) > 0"""


def _veil() -> Iterator[str]:
    """Decides about reported claims of which a record is hidden: one at their offset, or one of their identity at whose
    offset no other attempt was acknowledged (`loose`).

    * `undecided`: no other record is there, and nothing says that their transaction was committed, or it has not ended.
      They are left out: an acknowledgement does not promise a commit.
    * `elsewhere`: the record at their offset is hidden, another one is not, and the same is unknown. They count as
      found, and as acknowledged without an offset.
    * `torn`: the ledger says that their transaction was committed, and it was aborted. They count as LOST or MISPLACED.
    * `unanswered`: nobody was told of their record, and their transaction counts as committed. They show nothing.
    """
    yield 'CREATE TABLE loose AS SELECT * FROM hidden ANTI JOIN claim USING (k1, k2, "partition", "offset")'
    yield """CREATE TABLE veiled AS
        SELECT k1, k2, attempt, ended, bool_or(at_offset) AS at_offset, bool_or(is_open) AS is_open,
            (k1, k2, attempt) IN (SELECT (k1, k2, attempt) FROM present) AS is_present
        FROM (SELECT claim.k1, claim.k2, attempt, ended, true AS at_offset, is_open
            FROM claim JOIN hidden USING ("partition", "offset") WHERE told
            UNION ALL SELECT claim.k1, claim.k2, attempt, ended, false, is_open
            FROM claim JOIN loose USING (k1, k2) WHERE told)
        ANTI JOIN expired USING (k1, k2, attempt) ANTI JOIN unknowable USING (k1, k2, attempt) GROUP BY ALL"""
    yield "CREATE TABLE undecided AS SELECT * FROM veiled WHERE NOT is_present AND (ended = 'unknown' OR is_open)"
    yield """CREATE TABLE elsewhere AS SELECT * FROM veiled
        WHERE is_present AND at_offset AND (ended = 'unknown' OR is_open)"""
    yield """CREATE TABLE torn AS SELECT * FROM veiled
        WHERE ended = 'committed' AND NOT is_open AND (at_offset OR NOT is_present)"""
    yield """CREATE TABLE unanswered AS SELECT k1, k2, attempt FROM claim SEMI JOIN loose USING (k1, k2)
        ANTI JOIN present USING (k1, k2, attempt) WHERE outcome = 'INDETERMINATE' AND ended = 'committed'"""


def _keep() -> Iterator[str]:
    """Leaves out the claims that have or may have expired, unless another copy is there: that claim becomes
    INDETERMINATE. Also leaves out what `_veil` found undecided."""
    yield """CREATE TABLE kept AS
        SELECT * FROM claim ANTI JOIN expired USING (k1, k2, attempt) ANTI JOIN unknowable USING (k1, k2, attempt)
            ANTI JOIN undecided USING (k1, k2, attempt) ANTI JOIN elsewhere USING (k1, k2, attempt)
        UNION ALL SELECT * REPLACE (NULL AS "offset", NULL AS "partition") FROM claim
            SEMI JOIN elsewhere USING (k1, k2, attempt)
        UNION ALL
        SELECT * REPLACE ('INDETERMINATE' AS outcome, false AS told, NULL AS "offset", NULL AS "partition")
        FROM claim SEMI JOIN expired USING (k1, k2, attempt) SEMI JOIN present USING (k1, k2, attempt)"""


def _infer(audit: Audit) -> Iterator[str]:
    """Decides about records whose identity no claim has."""
    yield """CREATE TABLE unclaimed AS SELECT * FROM found ANTI JOIN claim USING (k1, k2) WHERE k1 IS NOT NULL
        AND k2 IS NOT NULL"""
    infers = not audit.others_write and not is_whole(audit)
    if audit.identity.in_parts:
        order = "k1, k2"
    elif audit.ordered:
        order = f"{OTHERS}, NULL"
    else:
        order = "'', NULL"
    yield f"""INSERT INTO kept SELECT k1, k2, {order}, 9223372036854775807, 0, 'INDETERMINATE', false, 0, NULL,
        NULL, NULL, NULL, NULL, NULL, 'unknown', true FROM (SELECT DISTINCT k1, k2 FROM unclaimed) WHERE {infers}"""
    yield f"""INSERT INTO owned SELECT "partition", "offset", k1, k2, 0 FROM unclaimed WHERE {infers}"""
    yield f"CREATE TABLE phantom AS SELECT * FROM unclaimed WHERE {not audit.others_write and is_whole(audit)}"


def _copies(audit: Audit) -> Iterator[str]:
    """Finds the first copy of each attempt, as the counts will see it: a damaged record (another checksum than the
    claim's) belongs to the attempt that was acknowledged at its offset and settled last, whatever its identity
    says."""
    yield f"""CREATE TABLE damaged AS SELECT owned."partition", owned."offset" FROM owned
        JOIN kept USING (k1, k2, attempt)
        JOIN found ON (found."partition", found."offset") = (owned."partition", owned."offset")
        WHERE NOT {_agrees("kept.hash", "found.hash")}"""
    sequence = "number" if audit.identity.in_parts else "born"
    yield f"""CREATE TABLE first_copy AS
        WITH owners AS (
            SELECT "partition", "offset", row_number() OVER (PARTITION BY "partition", "offset"
                ORDER BY settled DESC, name DESC, {sequence} DESC, attempt DESC) AS nth, k1, k2, attempt
            FROM (SELECT *, {_born(audit)} AS born FROM kept)
            SEMI JOIN damaged USING ("partition", "offset") WHERE outcome = 'ACKED'
        ), copies AS (
            SELECT "partition", "offset", k1, k2, attempt FROM owned ANTI JOIN damaged USING ("partition", "offset")
            UNION ALL SELECT "partition", "offset", k1, k2, attempt FROM owners WHERE nth = 1
        )
        SELECT k1, k2, attempt, min("offset") AS "offset", arg_min("partition", ("offset", "partition")) AS "partition"
        FROM copies GROUP BY k1, k2, attempt"""


def _agrees(claimed: str, computed: str) -> str:
    """Returns the expression that a record's checksum does not contradict its claim's. A null value has no checksum,
    and many clients write down that of an empty value in its place."""
    empty = f"({computed} IS NULL AND {claimed} IN {EMPTY})"
    return f"({claimed} IS NULL OR {claimed} IS NOT DISTINCT FROM {computed} OR {empty})"


def _born(audit: Audit) -> str:
    """Returns the expression for the first line of an identity. Without attempts, each identity has one line."""
    return "min(line) OVER (PARTITION BY k1, k2)" if audit.attempts else "line"


def is_whole(audit: Audit) -> bool:
    """Returns whether the ledger has every attempt: it says so, and nothing shows that its end is missing."""
    return audit.complete and not audit.cut


def _number(audit: Audit) -> Iterator[str]:
    """Numbers producers, sequences, and the attempts of each producer in each partition.

    Without an order of sending, attempts are numbered as they stand in the log, so that none looks late. The same holds
    for what the application sent again (attempt > 0): its number says when it was sent first.
    """
    yield """CREATE TABLE producers AS SELECT name, row_number() OVER (ORDER BY name) - 1 AS producer
        FROM (SELECT DISTINCT name FROM kept)"""
    location = 'coalesce(copy."partition", kept."partition", 0)'
    last = "9223372036854775807"
    yield f"""CREATE TABLE placed AS
        SELECT kept.*, producer, {_sequence(audit)} AS sequence, {location} AS location, copy."offset" AS stands,
            coalesce(kept."partition", copy."partition", 0) AS place, attempt > 0 AND number IS NOT NULL AS is_resent
        FROM (SELECT *, {_born(audit)} AS born FROM kept) AS kept
        JOIN producers USING (name) LEFT JOIN first_copy AS copy USING (k1, k2, attempt)"""
    if not audit.attempts:  # nothing was sent again, so the numbers alone give the order: one window less
        yield f"""CREATE TABLE numbered AS
            SELECT * EXCLUDE (location, stands, is_resent), row_number() OVER (PARTITION BY producer, location
                ORDER BY coalesce(number, stands, {last}), line) - 1 AS partition_sequence FROM placed"""
        return
    yield f"""CREATE TABLE numbered AS
        SELECT * EXCLUDE (location, stands, is_resent, top), row_number() OVER (PARTITION BY producer, location ORDER BY
            CASE WHEN is_resent THEN coalesce(top, -1) ELSE coalesce(number, stands, {last}) END, is_resent,
            CASE WHEN is_resent THEN coalesce(stands, {last}) END, line, attempt) - 1 AS partition_sequence
        FROM (SELECT *, max(CASE WHEN told AND NOT is_resent AND stands IS NOT NULL THEN number END) OVER (
            PARTITION BY producer, location ORDER BY coalesce(stands, {last})) AS top FROM placed)"""


def _sequence(audit: Audit) -> str:
    """Returns the expression for the sequence of an attempt: its number, or the rank of its identity by line. What only
    the log shows comes last, by identity. Without attempts, each claim has an identity of its own, and only what the
    log shows is sorted by the texts of identities."""
    if audit.identity.in_parts:
        return "number"
    if audit.attempts:
        return "dense_rank() OVER (ORDER BY born, k1, k2) - 1"
    texts = ", ".join(f"CASE WHEN is_inferred THEN {name} END" for name in ("k1", "k2"))
    rank = f"row_number() OVER (PARTITION BY is_inferred ORDER BY line, {texts}) - 1"
    return f"{rank} + CASE WHEN is_inferred THEN (SELECT count(*) FROM kept WHERE NOT is_inferred) ELSE 0 END"


_PHANTOM = '(SELECT count(*) FROM numbered) + 1000000000000 + "offset" * 4096 + "partition"'
"""The sequence of a record that was never attempted: one that no attempt has."""

LEDGER = """
SELECT $1::VARCHAR AS arm, producer::INTEGER AS producer, 0::INTEGER AS "session", sequence::BIGINT AS sequence,
    attempt::INTEGER AS attempt, place::INTEGER AS "partition", partition_sequence::BIGINT AS partition_sequence,
    outcome, CASE WHEN outcome = 'ACKED' THEN "offset" END AS "offset", NULL::VARCHAR AS "transaction",
    NULL::VARCHAR AS transaction_outcome,
    make_timestamptz(coalesce(coalesce(sent_at, settled_at) * 1000, getvariable('at_us')::BIGINT)) AS sent_at,
    CASE WHEN outcome <> 'INDETERMINATE' OR settled_at IS NOT NULL THEN make_timestamptz(settled) END AS settled_at,
    error, CASE WHEN is_inferred THEN 'log' ELSE 'client' END AS made_by
FROM numbered"""
"""The rows of the ledger. Parameter: the arm. The variable `at_us` is the time of attempts without one, in µs since the
epoch."""

LOG = f"""
WITH lines AS (
    SELECT found."partition", found."offset", found."timestamp", found.hash AS found_hash, numbered.*
        EXCLUDE ("partition", "offset"), phantom."offset" IS NOT NULL AS is_phantom
    FROM (SELECT * FROM found UNION ALL SELECT * EXCLUDE (is_open) FROM hidden) AS found
    LEFT JOIN owned USING ("partition", "offset")
    LEFT JOIN numbered ON (numbered.k1, numbered.k2, numbered.attempt) = (owned.k1, owned.k2, owned.attempt)
    LEFT JOIN phantom ON (phantom."partition", phantom."offset") = (found."partition", found."offset")
)
SELECT $1::VARCHAR AS arm, "partition", "offset", 'raw' AS "view", "timestamp",
    CASE WHEN known THEN $2 END AS header_run, CASE WHEN known THEN $3::INTEGER END AS header_arm,
    CASE WHEN is_phantom THEN 0 ELSE producer END::INTEGER AS producer,
    CASE WHEN known THEN 0 END::INTEGER AS "session",
    CASE WHEN is_phantom THEN {_PHANTOM} ELSE sequence END::BIGINT AS sequence,
    CASE WHEN is_phantom THEN 0 ELSE attempt END::INTEGER AS attempt,
    CASE WHEN is_phantom THEN 0 ELSE partition_sequence END::BIGINT AS partition_sequence,
    known AS parsed, known AND {_agrees("hash", "found_hash")} AS crc_ok,
    NOT known AS "foreign"
FROM (SELECT *, is_phantom OR producer IS NOT NULL AS known FROM lines)"""
"""The rows of the log. Parameters: the arm, the run's token, the arm's ordinal."""


def named(in_parts: bool) -> str:
    """Returns the query for the rows of claims/. Parameters: the arm, and the names of the ledger's files."""
    claim = "format('{} {}', k1, k2)" if in_parts else "k1"
    return f"""
    SELECT $1::VARCHAR AS arm, producer::INTEGER AS producer, 0::INTEGER AS "session", sequence::BIGINT AS sequence,
        attempt::INTEGER AS attempt, {claim} AS claim,
        CASE WHEN NOT is_inferred THEN list_extract($2::VARCHAR[], line // {FILE} + 1) END AS file,
        CASE WHEN NOT is_inferred THEN line % {FILE} END AS line
    FROM numbered UNION ALL
    SELECT $1::VARCHAR, 0, 0, {_PHANTOM}, 0, {claim}, NULL, NULL FROM phantom"""


ANNOUNCED = "SELECT producer, outcome, count(*) FILTER (NOT is_inferred), count(*) FROM numbered GROUP BY ALL"
"""By producer and outcome: how many attempts are claimed, and how many there are."""
_SHARED = """SELECT "partition", "offset", list(line ORDER BY line) AS places, count(*) AS acks
    FROM claim WHERE outcome = 'ACKED' AND "offset" IS NOT NULL GROUP BY "partition", "offset" HAVING count(*) > 1"""
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
        SELECT name, number FROM kept WHERE is_inferred) WHERE number IS NOT NULL
        AND name <> {OTHERS} GROUP BY name)""",
}
"""The counts of `Matched`, by name."""
EXAMPLES = {
    name: f'{query} ORDER BY "partition", "offset" LIMIT 1'
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
), first AS (
    SELECT * FROM sound ORDER BY found_partition, found_offset LIMIT $2
)
SELECT given.*, found_partition, found_offset FROM read_parquet($1) AS given
JOIN first ON first.line = given.file * {FILE} + given.line ORDER BY found_partition, found_offset"""
"""Claims with exactly one, sound record: the first ones in the log. Parameters: the file of claims, and how many."""

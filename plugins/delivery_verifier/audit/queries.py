"""The queries by which DuckDB matches the claims of a foreign ledger with the records found in its topic.

`k1` and `k2` identify a record: its id and 0, or its producer and sequence. `name` and `number` give the order of
sending, if it is known. A claim is `told` if the client reported it (acked or sent).

Most claims are *plain*: exactly one record has their identity, no other claim has it, and nothing about the record
contradicts the claim. They are matched by few narrow columns (`plain`). Only the other claims and records go through
the `steps` (`claim`, `found`). A step may use them alone, because nothing that it decides depends on a plain claim.

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
HASH = "hash(k1, k2)"
"""Finds candidates alone: what it finds is compared as text (see `plain`)."""
OUTCOME = "ENUM ('ACKED', 'SENT', 'FAILED', 'INDETERMINATE')"
INFERRED = 1 << 62
"""What only the log shows stands behind all claims, at places from here on, by identity."""


def views(audit: Audit, claims: str, records: str, some_are_hidden: bool) -> Iterator[str]:
    """Yields the queries for views of the files `claims` and `records`: `claimed`, `written`, and what a read_committed
    consumer gets, `visible`. Failed attempts count as INDETERMINATE unless the application says why they were certainly
    not written. `some_are_hidden`: whether the table `hidden_ranges` has rows."""
    identity = "producer AS k1, sequence AS k2" if audit.identity.in_parts else "id AS k1, 0::BIGINT AS k2"
    failed, aborted = "FAILED" if audit.failed_because else "INDETERMINATE", "transaction_outcome = 'aborted'"
    hashed = {"": "NULL::VARCHAR", "crc32": "value_crc32::VARCHAR", "sha256": "value_sha256"}[audit.hash]
    yield f"""
    CREATE VIEW claimed AS SELECT {identity}, producer AS sender, sequence AS sent_as, file * {FILE} + line AS line,
        coalesce(attempt, 0) AS attempt,
        CASE WHEN {aborted} THEN 'FAILED' WHEN outcome = 'acked' THEN 'ACKED' WHEN outcome = 'sent' THEN 'SENT'
        WHEN outcome = 'failed' THEN '{failed}' ELSE 'INDETERMINATE' END AS outcome,
        outcome IN ('acked', 'sent') AND ({aborted}) IS NOT TRUE AS told,
        coalesce(coalesce(settled_at, sent_at) * 1000, getvariable('at_us')::BIGINT) AS settled,
        "partition", "offset", {hashed} AS hash, sent_at, settled_at, error,
        coalesce(transaction_outcome, 'unknown') AS ended, false AS is_inferred
    FROM read_parquet({_text(claims)})"""
    yield f"""CREATE VIEW written AS SELECT "partition", "offset", "timestamp", {identity}, hash
        FROM read_parquet({_text(records)})"""
    if not some_are_hidden:
        yield "CREATE VIEW visible AS FROM written"
        return
    yield """CREATE VIEW visible AS SELECT written.* FROM written ASOF LEFT JOIN hidden_ranges AS part
        ON written."partition" = part."partition" AND written."offset" >= part."first"
        WHERE part."end" IS NULL OR written."offset" >= part."end" """


def _text(value: str) -> str:
    """Returns a text as a literal. A view takes no parameters."""
    return "'" + value.replace("'", "''") + "'"


MOST_HAVE_OFFSETS = 'SELECT count("offset") * 2 > count(*) FROM claimed'


def plain(audit: Audit, by_offset: bool) -> Iterator[str]:
    """Yields the queries for `plain`: all claims, with the place of the record that bears out a plain one.

    `odd` has the hashes of identities that have not exactly one claim and one record. Two identities with one hash are
    odd, too, so a hash decides nothing. `by_offset`: look for the record of a claim at its offset, which costs less. A
    claim without an offset then is not plain.
    """
    yield f"""CREATE TABLE odd AS SELECT h FROM (SELECT {HASH} AS h, 0::UTINYINT AS side FROM claimed UNION ALL
        SELECT {HASH}, 1 FROM written WHERE k1 IS NOT NULL AND k2 IS NOT NULL)
        GROUP BY h HAVING count(*) <> 2 OR min(side) = max(side)"""
    name, number = _order(audit)
    where = '"partition", "offset"' if by_offset else "k1, k2"
    on = " AND ".join(f"claimed.{each} = record.{each}" for each in where.split(", "))
    same = " AND ".join(
        f"(claimed.{each} IS NULL OR claimed.{each} = record.{each})" for each in ('"partition"', '"offset"', "hash")
    )
    is_plain = f"claimed.k1 = record.k1 AND claimed.k2 = record.k2 AND outcome <> 'FAILED' AND {same}"
    yield f"""CREATE TABLE plain AS SELECT line, {name} AS name, {number} AS number, attempt,
            outcome::{OUTCOME} AS outcome,
            claimed."offset" IS NOT NULL AS has_offset, record."partition",
            CASE WHEN {is_plain} THEN record."offset" END AS "offset", record."timestamp"
        FROM claimed LEFT JOIN (SELECT * FROM visible ANTI JOIN odd ON {HASH} = h) AS record ON {on}"""


def _order(audit: Audit) -> tuple[str, str]:
    """Returns the expressions for `name` and `number` of a claim that is the only one of its identity."""
    return ("sender", "sent_as") if audit.identity.in_parts or audit.ordered else ("''", "NULL::BIGINT")


NOT_PLAIN = 'SELECT (SELECT count(*) FROM plain WHERE "offset" IS NULL) + (SELECT count(*) FROM odd)'
"""How many claims and identities are not plain."""


def others(audit: Audit) -> Iterator[str]:
    """Yields the queries that move what is not plain to `claim` and `found`."""
    order = "{} AS name, {} AS number".format(*_order(audit))
    if audit.ordered and not audit.identity.in_parts and audit.attempts:
        # An id that several producers sent has no place in the order of one of them.
        alone = "min(sender) OVER (PARTITION BY k1) = max(sender) OVER (PARTITION BY k1)"
        order = f"CASE WHEN {alone} THEN sender ELSE {OTHERS} END AS name, CASE WHEN {alone} THEN sent_as END AS number"
    yield f"""CREATE TABLE claim AS SELECT k1, k2, {order}, * EXCLUDE (k1, k2, sender, sent_as) FROM claimed
        WHERE line IN (SELECT line FROM plain WHERE "offset" IS NULL)"""
    yield 'DELETE FROM plain WHERE "offset" IS NULL'
    yield f"""CREATE TABLE found AS SELECT * FROM written WHERE k1 IS NULL OR k2 IS NULL
        OR {HASH} IN (SELECT h FROM odd UNION ALL SELECT {HASH} FROM claim)"""


def doubles(audit: Audit) -> Iterator[str]:
    """Yields queries for claims that are the same attempt: what it is, its number, and where two of them stand."""
    places = "list(line ORDER BY line)[1:2]"
    what = "format('{} {}', k1, k2)" if audit.identity.in_parts else "'id ' || k1"
    yield f"""SELECT {what}, attempt, {places} FROM claim GROUP BY k1, k2, attempt HAVING count(*) > 1
        ORDER BY min(line) LIMIT 1"""
    if audit.ordered and not audit.identity.in_parts:
        yield f"""WITH sent AS (SELECT name, number, attempt, line FROM claim UNION ALL
                SELECT name, number, attempt, line FROM plain),
            twice AS (SELECT name, number, attempt FROM sent WHERE number IS NOT NULL GROUP BY ALL HAVING count(*) > 1)
            SELECT format('sequence {{}} of producer {{}}', number, name), attempt, {places}
            FROM sent SEMI JOIN twice USING (name, number, attempt) GROUP BY name, number, attempt
            ORDER BY min(line) LIMIT 1"""


OUTSIDE = """SELECT line, "partition" FROM claim ANTI JOIN bounds USING ("partition")
    WHERE "partition" IS NOT NULL ORDER BY line LIMIT 1"""
"""A claim of a partition that the topic does not have."""


def steps(audit: Audit, some_are_hidden: bool) -> Iterator[str]:
    """Yields the queries that match what is not plain, in order."""
    yield from _hide(some_are_hidden)
    yield from _adopt()
    yield from _assign()
    yield from _expire()
    yield from _veil()
    yield from _keep()
    yield from _infer(audit)
    yield from _copies(audit)


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
    line = f"{INFERRED} + row_number() OVER (ORDER BY k1, k2)"
    yield f"""INSERT INTO kept SELECT k1, k2, {order}, {line}, 0, 'INDETERMINATE', false, 0, NULL, NULL, NULL, NULL,
        NULL, NULL, 'unknown', true FROM (SELECT DISTINCT k1, k2 FROM unclaimed) WHERE {infers}"""
    yield f"""INSERT INTO owned SELECT "partition", "offset", k1, k2, 0 FROM unclaimed WHERE {infers}"""
    yield f"CREATE TABLE phantom AS SELECT * FROM unclaimed WHERE {not audit.others_write and is_whole(audit)}"


def _copies(audit: Audit) -> Iterator[str]:
    """Finds the first copy of each attempt, as the counts will see it: a damaged record (another checksum than the
    claim's) belongs to the attempt that was acknowledged at its offset and settled last, whatever its identity
    says."""
    yield f"""CREATE TABLE damaged AS SELECT owned."partition", owned."offset" FROM owned
        JOIN kept USING (k1, k2, attempt)
        JOIN found ON (found."partition", found."offset") = (owned."partition", owned."offset")
        WHERE NOT {agrees("kept.hash", "found.hash")}"""
    sequence = "number" if audit.identity.in_parts else "born"
    yield f"""CREATE TABLE first_copy AS
        WITH owners AS (
            SELECT "partition", "offset", row_number() OVER (PARTITION BY "partition", "offset"
                ORDER BY settled DESC, name DESC, {sequence} DESC, attempt DESC) AS nth, k1, k2, attempt
            FROM (SELECT *, {born(audit)} AS born FROM kept)
            SEMI JOIN damaged USING ("partition", "offset") WHERE outcome = 'ACKED'
        ), copies AS (
            SELECT "partition", "offset", k1, k2, attempt FROM owned ANTI JOIN damaged USING ("partition", "offset")
            UNION ALL SELECT "partition", "offset", k1, k2, attempt FROM owners WHERE nth = 1
        )
        SELECT k1, k2, attempt, min("offset") AS "offset", arg_min("partition", ("offset", "partition")) AS "partition"
        FROM copies GROUP BY k1, k2, attempt"""


def agrees(claimed: str, computed: str) -> str:
    """Returns the expression that a record's checksum does not contradict its claim's. A null value has no checksum,
    and many clients write down that of an empty value in its place."""
    empty = f"({computed} IS NULL AND {claimed} IN {EMPTY})"
    return f"({claimed} IS NULL OR {claimed} IS NOT DISTINCT FROM {computed} OR {empty})"


def born(audit: Audit) -> str:
    """Returns the expression for the first line of an identity. Without attempts, each identity has one line."""
    return "min(line) OVER (PARTITION BY k1, k2)" if audit.attempts else "line"


def is_whole(audit: Audit) -> bool:
    """Returns whether the ledger has every attempt: it says so, and nothing shows that its end is missing."""
    return audit.complete and not audit.cut

"""Queries that count what the matching could not decide: each count takes away a HELD, or a conviction.

They run after the steps of `queries`. A doubt is right wherever a count is above 0.
"""

from __future__ import annotations

from delivery_verifier.audit.queries import EMPTY

_AT = '("partition", "offset")'
_ABSENT = """SELECT kept.* FROM kept ANTI JOIN first_copy USING (k1, k2, attempt) WHERE told"""
_EVERY = "(SELECT * FROM found UNION ALL SELECT * EXCLUDE (is_open) FROM hidden)"
_NAMELESS = f"""SELECT "partition", "offset", hash FROM {_EVERY} WHERE k1 IS NULL OR k2 IS NULL"""
_YOUNGER = """coalesce(settled_at, sent_at) IS NOT NULL AND settled < (SELECT epoch_us(min(first))
    FROM (SELECT min("timestamp") AS first FROM found UNION ALL SELECT min("timestamp") FROM plain))
    AND (SELECT max("start") FROM bounds) = 0"""
_DAMAGED = f"(k1, k2) IN (SELECT (k1, k2) FROM found WHERE {_AT} IN (SELECT {_AT} FROM damaged))"
_UNIDENTIFIED = f"{_AT} IN (SELECT {_AT} FROM ({_NAMELESS}))"
COUNTS = {
    "expired_present": "SELECT count(*) FROM expired SEMI JOIN present USING (k1, k2, attempt)",
    "guessed": """SELECT count(*) FROM others JOIN (
        SELECT k1, k2, bool_or(outcome = 'ACKED') AS was_acked, (SELECT count(*) FROM found
            WHERE (found.k1, found.k2) = (claim.k1, claim.k2)) AS copies
        FROM claim SEMI JOIN several USING (k1, k2) GROUP BY k1, k2) USING (k1, k2) WHERE was_acked OR copies > 1""",
    "unordered": """SELECT count(*) FROM (SELECT number, min(attempt) OVER (PARTITION BY k1, k2) AS earliest
        FROM claim UNION ALL SELECT number, attempt FROM plain) WHERE number IS NULL OR earliest > 0""",
    "end_unknown": "SELECT count(*) FROM claimed WHERE ended = 'unknown'",
    "transaction_unknown": """SELECT (SELECT count(*) FROM undecided) + (SELECT count(*) FROM elsewhere)
        + (SELECT count(*) FROM unanswered)""",
    "committed_hidden": "SELECT count(*) FROM torn WHERE NOT is_present",
    "committed_hidden_there": "SELECT count(*) FROM torn WHERE is_present",
    "aborted_found": "SELECT count(*) FROM owned JOIN claim USING (k1, k2, attempt) WHERE ended = 'aborted'",
    "failed_elsewhere": """SELECT count(*) FROM owned JOIN claim USING (k1, k2, attempt) WHERE outcome = 'FAILED'
        AND (owned."partition", owned."offset") IS DISTINCT FROM (claim."partition", claim."offset")""",
    "sent_again": "SELECT count(*) FROM veiled WHERE is_present",
    "resent": """SELECT count(*) FROM (SELECT attempt FROM kept UNION ALL SELECT attempt FROM plain)
        WHERE attempt > 0""",
    "adopted": "SELECT count(*) FROM adopted",
    "tombstones": f"""SELECT count(*) FROM owned JOIN kept USING (k1, k2, attempt)
        JOIN found ON (found."partition", found."offset") = (owned."partition", owned."offset")
        WHERE found.hash IS NULL AND kept.hash IN {EMPTY}""",
    "younger": f"SELECT count(*) FROM ({_ABSENT}) WHERE {_YOUNGER}",
    "unidentified": f"""SELECT count(*) FROM ({_ABSENT}) WHERE "offset" IS NOT NULL AND {_UNIDENTIFIED}""",
    "unproven_lost": f"""SELECT count(*) FILTER (is_explained)
        + least(count(*) FILTER (NOT is_explained AND "offset" IS NULL), (SELECT count(*) FROM ({_NAMELESS})))
        FROM (SELECT "offset", coalesce({_DAMAGED}, false)
            OR coalesce("offset" IS NOT NULL AND ({_UNIDENTIFIED} OR {_YOUNGER}), false) AS is_explained
            FROM ({_ABSENT}))""",
    "unproven_duplicated": """SELECT count(*) FROM (SELECT k1, k2, attempt FROM owned
            SEMI JOIN (SELECT * FROM claim ANTI JOIN present USING (k1, k2, attempt) WHERE ended = 'aborted') AS absent
                USING (k1, k2)
        GROUP BY k1, k2, attempt HAVING count(*) > 1)""",
    "unproven_misplaced": f"""SELECT count(*) FROM kept SEMI JOIN first_copy USING (k1, k2, attempt)
        JOIN ({_NAMELESS}) AS nameless USING ("partition", "offset")
        WHERE outcome = 'ACKED' AND (kept.hash IS NULL OR kept.hash = nameless.hash)""",
}
"""Counts by name.

* `expired_present`: claims whose offset the log no longer has, though it has a record of theirs.
* `guessed`: records whose attempt is not certain, because the identity has several attempts.
* `unordered`: claims without a place in the order of sending. `resent`: attempts that the application sent again.
* `adopted`: records without an identity that were found by offset and checksum.
* `tombstones`: null values that were claimed with the checksum of an empty one.
* `younger`: absent claims that are older than every record of the topic, whose logs begin at 0.
* `unidentified`: absent claims at whose offset a record without an identity stands.
* `end_unknown`: claims that do not say whether their transaction was committed or aborted.
* `transaction_unknown`: claims of which a record is in an aborted or open transaction, and the ledger does not say that
  theirs was aborted. `committed_hidden`, `committed_hidden_there`: claims of committed transactions that are LOST or
  MISPLACED because their record is in an aborted one. `aborted_found`: records of claims whose transaction was aborted.
  `failed_elsewhere`: records of FAILED claims, but for those at the offset that was acknowledged in an aborted one.
  `sent_again`: claims that were found, of which another record is in an aborted or open transaction.
* `unproven_lost`, `unproven_misplaced`, `unproven_duplicated`: how many of these cases are not proven, at most. A loss
  is not proven if a record of the same identity stands in the log with another checksum: it may be the lost one,
  damaged. A copy is not if it may be of an attempt whose transaction was aborted.
"""

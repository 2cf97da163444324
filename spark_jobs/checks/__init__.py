"""Checks: pairs of counts that must be equal. If a pair differs, the evidence of a run cannot be trusted.

Owns: the invariants of the counts, and the second opinion: DuckDB's count of what Spark counted.
May use: matching, reading, schemas.
Weak spot: the second opinion trusts the reading, i.e. the columns of ledger/, log/ and effects/.
"""

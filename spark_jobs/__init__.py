"""Spark: from ledger and log to anomalies and books.

Owns: reading the topic, parsing, matching, the books. A DataFrame in, a DataFrame out; no UDFs.
May use: store, host, model.
Weak spot: a batch that is corrupt on disk makes Kafka's consumer raise: the run ends without a verdict.
"""

"""Spark: reads the records of the load back from their topics, and compares them with the ledger that `load` wrote.

The results are the anomalies, with one row per case, and the counts: small tables of exact counts. `verdict` judges
the run by the counts.

The folders are `session`, `reading`, `matching`, `effects`, `summaries` and `checks`. Each says what it owns. The
module `reconcile` stands above them, `schemas` and `literals` below.

Owns: reading the topics, parsing, matching, the counts, their second count by DuckDB, and the watch over Spark's
    progress. Functions take DataFrames and return DataFrames. There are no UDFs. In docstrings, a name in capitals,
    such as LEDGER, stands for a DataFrame or table with the columns of the schema with this name in
    `spark_jobs.schemas`. A claim is a row of the ledger. A line is a record in the log. A copy is a line that holds an
    attempt. A subject, in this room, is not an arm: it is any attempt or line that can be a case of an anomaly. A
    chunk is a run of consecutive records of one producer. The screen proves that some chunks are without
    anomalies. The records of these chunks are not matched one by one.
May use: run_directory, host, model.
Weak spot: a batch that becomes corrupt on disk after the step `settle` has looked at it makes Kafka's consumer raise an
    error. The run then ends without a verdict.
"""

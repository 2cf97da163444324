"""Spark: compares the ledger with the log, and writes the anomalies and the books.

The books are small tables of exact counts, by which a run is judged.

Owns: reading the topics, parsing, matching, the books. Functions take DataFrames and return DataFrames. There are no
    UDFs. In docstrings, a name in capitals, such as LEDGER, stands for a DataFrame or table with that schema of
    `spark_jobs.schemas`.
May use: store, host, model.
Weak spot: a batch that is corrupt on disk makes Kafka's consumer raise an error: the run then ends without a verdict.
"""

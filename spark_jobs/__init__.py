"""Spark: from ledger and log to anomalies and books.

Owns: reading the topics, parsing, matching, the books. Functions take DataFrames and return DataFrames. There are no
    UDFs. Names in capitals, such as LEDGER, are schemas of DataFrames or tables (`spark_jobs.schemas`).
May use: store, host, model.
Weak spot: a batch that is corrupt on disk makes Kafka's consumer raise an error: the run then ends without a verdict.
"""

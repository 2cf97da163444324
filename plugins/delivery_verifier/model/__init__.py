"""The terms of the project, as data.

Owns: the terms that all other rooms (packages) use: anomalies, actions, the record, scenarios, the history of the
    cluster, and verdicts. Also owns how the files that hold these terms are written and read. Reading is strict: an
    unknown field in such a file is an error.
May use: nothing of ours.
Weak spot: a record is identified by its value alone. The load sends no keys and no headers, and nothing compares keys,
    headers or timestamps.
"""

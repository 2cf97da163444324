"""The terms of the project, as data.

A new fault begins here: `fault_actions` describes it in words and data. The code of the fault then goes into the room
(package) `faults`.

Owns: the terms that all other rooms use: anomalies, actions, the record, scenarios, the history of the cluster, and
    verdicts. Also owns the formats of the files that hold these terms. An unknown field in such a file is an error.
May use: nothing of ours.
Weak spot: a record is identified by its value alone. The load sends no keys and no headers, and nothing compares keys,
    headers or timestamps.
"""

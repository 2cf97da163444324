"""The words of the product as data.

Owns: the terms that all other rooms use: anomalies, actions, the record, scenarios, what happened, verdicts; and
    their strict reading and writing.
May use: nothing of ours.
Weak spot: a record is known by its value alone: keys, headers and timestamps are neither sent nor compared.
"""

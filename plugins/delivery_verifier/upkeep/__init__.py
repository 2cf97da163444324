"""Looks after a host and the runs on this host.

Owns: the doctor, retention, the bundle for a ticket, redaction.
May use: orchestration, planning, cluster, store, host, model.
Weak spot: redaction finds a secret by its value or by a pattern: an unknown secret that looks like a word stays.
"""

"""Looking after a host and its runs.

Owns: the doctor, retention, the bundle for a ticket, redaction.
May use: orchestration, planning, cluster, store, host, model.
Weak spot: redaction knows a secret by its value or its look: one that looks like a plain word passes.
"""

"""Looks after a host and the runs on this host.

Owns: the doctor (checks of this host), retention (the removal of old runs), the bundle (a zip file with the evidence of
    a run, for a ticket), redaction (the removal of secrets from the bundle).
May use: local_airflow, planning, cluster, run_directory, host, model.
Weak spot: redaction finds a secret by its value, if the value is known, or by a pattern. A secret with an unknown value
    that matches no pattern stays in the text.
"""

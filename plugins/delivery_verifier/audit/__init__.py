"""Judges an application's own ledger against its topic: a ledger that nobody here wrote.

Owns: the readers of foreign ledgers, the snapshot without markers, the matching of records with claims, the canary made
    of the user's own records, and the order of these steps.
May use: planning, verdict, spark_jobs, cluster, catalogue, run_directory, host, model.
Weak spot: what the application did not write down is unknown, and so is what happened to the cluster meanwhile.
"""

"""The catalogue run: runs many entries of the catalogue, one after another.

Owns: which entries run, their order, the second run of an entry whose first run was INCONCLUSIVE, and the figures of
    each run that catalogue.json keeps.
May use: pipeline, reporting, verdict, planning, catalogue, cluster, expectations, spark_jobs, run_directory, host,
    model.
Weak spot: a host runs only one entry at a time. The full catalogue therefore takes about 20 minutes.
"""

"""The catalogue run: runs many entries of the catalogue, one after another.

Owns: which entries run, their order, the second run of an entry whose first run was INCONCLUSIVE, and the record of the
    results.
May use: run, pages, planning, catalogue, cluster, expectations, spark_jobs, store, host, model.
Weak spot: one host runs one entry at a time: the full catalogue takes about 20 minutes.
"""

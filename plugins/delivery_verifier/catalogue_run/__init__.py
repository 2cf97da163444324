"""Many scenarios, one after another.

Owns: which entries are taken, their order, the second try of an INCONCLUSIVE run, what they ended with.
May use: run, pages, planning, catalogue, cluster, expectations, spark_jobs, store, host, model.
Weak spot: one host runs one entry at a time: the full catalogue takes about 20 minutes.
"""

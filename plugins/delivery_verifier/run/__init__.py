"""One run, step by step.

Owns: the steps, their order without Airflow, the snapshot, the signals between steps that run side by side.
May use: planning, pages, judgement, expectations, spark_jobs, faults, load, cluster, contract, catalogue, store,
    host, model.
Weak spot: no step before `reconcile` can be repeated: if such a step dies, the run ends.
"""

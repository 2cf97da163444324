"""One run, step by step.

Owns: the steps, their order without Airflow, the snapshot, the signals between steps that run side by side.
May use: planning, pages, judgement, expectations, spark_jobs, faults, load, cluster, contract, catalogue, store,
    host, model.
Weak spot: nothing before `reconcile` can be repeated: a step that dies half-way ends the run.
"""

"""Performs one run step by step, with or without Airflow.

Owns: the steps, their order in a run without Airflow, the signals between steps that run side by side.
May use: planning, reporting, advice, verdict, settlement, progress, canary, expectations, spark_jobs, faults,
    applications, load, cluster, run_directory, host, model.
Weak spot: no step before `reconcile` can be repeated, because such a step depends on more than the run directory. If
    such a step fails, the run ends without a verdict.
"""

"""Airflow: tasks in Airflow, pages in Airflow, and a local Airflow.

Owns: `tasks` (in Airflow), `plugin` (its web server and listeners), `local` (an Airflow on this host, driven from a
    terminal). No other room imports Airflow.
May use: catalogue_run, run, pages, planning, cluster, catalogue, spark_jobs, store, host, model.
Weak spot: the local Airflow keeps its state in SQLite, which refuses writes while it is busy; callers ask again.
"""

"""All code for Airflow: the tasks of the DAGs, a plugin with pages, and a local Airflow.

Owns: `tasks` (code of the DAG files and of Airflow's workers), `plugin` (code of Airflow's web server and scheduler),
    `local` (an Airflow on this host that is driven from a terminal). No other room imports Airflow.
May use: catalogue_run, run, progress, pages, planning, cluster, catalogue, spark_jobs, store, host, model.
Weak spot: the local Airflow keeps its state in SQLite, which refuses writes while the database is busy.
    Callers repeat a refused request.
"""

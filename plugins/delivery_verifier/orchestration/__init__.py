"""All code for Airflow, whoever runs it: the tasks of the DAGs, and a plugin with pages.

Owns: `tasks` (code of the DAG files and of Airflow's workers), `plugin` (code of Airflow's web server and scheduler),
    `client` (Airflow's REST API), the names of the DAGs, and why a run failed. No other room imports Airflow.
May use: audit, catalogue_run, run, progress, pages, planning, cluster, catalogue, spark_jobs, store, host, model.
Weak spot: the plugin reads functions of Airflow that are no public interface (`plugin.dag_runs`). A new version of
    Airflow may change them.
"""

"""An Airflow on this host, as child processes of a supervisor. The terminal asks it for runs through its REST API.

Owns: the processes of Airflow, their settings and secrets (`supervisor`, `settings`), their start and end
    (`lifecycle`), a Spark Connect server (`spark_server`), and runs that a command starts (`run`, `run_catalogue`).
May use: orchestration, pipeline, cluster, spark_jobs, run_directory, host, model.
Weak spot: this Airflow keeps its state in SQLite, which refuses writes while the database is busy. Callers repeat a
    refused request.
"""

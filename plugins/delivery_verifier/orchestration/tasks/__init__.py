"""In Airflow's workers and DAG files: the tasks of both DAGs, the form, the gate."""

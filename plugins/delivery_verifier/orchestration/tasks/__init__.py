"""The code of the DAG files and of Airflow's workers: the tasks of both DAGs, the forms, the gate and the mail."""

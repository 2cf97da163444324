"""The code that DAG files import and Airflow's workers run: tasks, forms, the messages about red runs, and the gate.
The gate is the task that decides whether a run is green."""

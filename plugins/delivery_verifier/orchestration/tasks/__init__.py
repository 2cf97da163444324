"""The code that DAG files import and Airflow's workers run: tasks, forms, the mail that reports a failed run, and the
gate, which is the task that decides whether a run is green."""

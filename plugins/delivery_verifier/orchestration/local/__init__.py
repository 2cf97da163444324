"""An Airflow on this host: its processes, its settings, and runs driven through it from a terminal."""

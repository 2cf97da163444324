"""The local Airflow, an Airflow on this host: its processes, its settings, and runs that a command starts there."""

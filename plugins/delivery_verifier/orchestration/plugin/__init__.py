"""In Airflow's web server and scheduler: pages, tabs, and libraries imported early."""

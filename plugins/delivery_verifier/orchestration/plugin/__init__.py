"""The code of the plugin in Airflow's processes: pages and tabs in the web server, early imports in the scheduler."""

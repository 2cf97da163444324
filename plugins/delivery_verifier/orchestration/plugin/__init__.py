"""The plugin in Airflow's processes. In the web server, it adds pages and tabs. In the scheduler, it imports early what
tasks need."""

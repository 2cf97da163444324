"""Airflow: the only part of the library that imports or drives it."""

"""Access to the local Airflow: a client of its REST API that knows the users' passwords."""

from __future__ import annotations

from delivery_verifier.local_airflow import settings
from delivery_verifier.orchestration.client import Client


def client_of(url: str, user: str = "admin") -> Client:
    """Returns a client of the local Airflow at `url`. The client logs in as `user`, `admin` or `viewer`, with the
    password that was generated for this user."""
    return Client(url, user, settings.ensure_passwords()[user])

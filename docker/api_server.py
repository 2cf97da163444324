"""Writes the users' passwords to the file that Airflow reads, and then becomes Airflow's api-server."""

from __future__ import annotations

import json
import os
from pathlib import Path

FILE = Path("/opt/kdv/airflow/passwords.json")


def main() -> None:
    """Writes the passwords with mode 0600, and replaces this process with the api-server.

    Raises KeyError if KDV_ADMIN_PASSWORD or KDV_VIEWER_PASSWORD is missing.
    """
    passwords = {user: os.environ.pop(f"KDV_{user.upper()}_PASSWORD") for user in ("admin", "viewer")}
    FILE.unlink(missing_ok=True)
    with os.fdopen(os.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump(passwords, stream)
    os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"] = str(FILE)
    os.execvp("airflow", ["airflow", "api-server"])  # noqa: S606 (no shell)


if __name__ == "__main__":
    main()

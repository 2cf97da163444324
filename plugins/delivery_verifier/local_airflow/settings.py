"""The settings of the local Airflow: its folders, its secrets, and all environment variables of its processes."""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from delivery_verifier.host import folders, variables
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.model.inputs import bad_input, whole
from delivery_verifier.orchestration import notifiers
from delivery_verifier.orchestration.names import MARK

DEFAULT_PORT = 8080
SPARK_VARIABLE = "AIRFLOW_CONN_SPARK_DEFAULT"
"""The environment variable that defines the Airflow connection `spark_default`. If the user has not set it, the local
Airflow has a Spark Connect server of its own."""
SPARK_ADDRESS = "127.0.0.1"
"""The address on which the Spark Connect server of the local Airflow listens."""
SPARK_HOST = "localhost"
"""The name by which clients call this server. Clients must use this name, because PySpark sends a token without TLS
only to `localhost`."""


def airflow_home() -> Path:
    """Returns the folder that is AIRFLOW_HOME of the local Airflow."""
    return folders.state_dir() / "airflow"


def passwords_file() -> Path:
    """Returns the file with the password of each user. The file is JSON and has mode 0600. Airflow reads this file,
    too."""
    return airflow_home() / "passwords.json"


def port(chosen: int | None = None) -> int:
    """Returns the port of the local Airflow. This is `chosen` (the option --port) if it is given, else the value of
    KDV_PORT if the variable is set, else 8080.

    Raises BadInput if the result would not be a valid port number.
    """
    if chosen is not None:
        return whole("--port", chosen, 1, 65535, example=DEFAULT_PORT)
    return variables.number("KDV_PORT", DEFAULT_PORT, 1, 65535)


def base_url(port: int) -> str:
    """Returns the address of the UI and of the REST API of the local Airflow on `port`."""
    return f"http://127.0.0.1:{port}"


def spark_token() -> str:
    """Returns the secret by which the Spark Connect server recognizes a client that may use the server."""
    return _secret("spark_token", secrets.token_urlsafe)


def spark_connection(port: int) -> str:
    """Returns, as JSON, the Airflow connection to the local Airflow's Spark Connect server. `port` is the port of this
    server."""
    return json.dumps({"conn_type": "spark_connect", "host": SPARK_HOST, "port": port, "password": spark_token()})


def environment(port: int, spark_port: int | None = None) -> dict[str, str]:
    """Returns all environment variables of the local Airflow's processes.

    `port` is the port of Airflow. `spark_port` is the port of the Spark Connect server; None if the user has set
    SPARK_VARIABLE.

    Only this module sets Airflow's own settings. AIRFLOW__* and AIRFLOW_CONFIG* variables of the user are left out,
    because they may name another database or another executor. Connections (AIRFLOW_CONN_*) and variables
    (AIRFLOW_VAR_*) of the user are kept. Raises BadInput if the environment chooses a channel for messages about red
    runs that cannot be used (see `notifiers`).
    """
    notifiers.check()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW__", "AIRFLOW_CONFIG"))}
    if spark_port is not None:
        inherited[SPARK_VARIABLE] = spark_connection(spark_port)
        inherited["no_grpc_proxy"] = SPARK_HOST  # a proxy of the user would look for the server on its own host
    return inherited | _paths() | _airflow(port) | _secrets()


def _paths() -> dict[str, str]:
    programs = str(Path(sys.executable).parent)
    return {
        MARK: str(airflow_home()),
        "AIRFLOW_HOME": str(airflow_home()),
        "KDV_HOME": str(folders.home()),
        "KDV_RUNS": str(folders.runs_dir()),
        "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home()),  # spark-submit looks for Java only here and on PATH
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONUNBUFFERED": "1",
    }


def _checkout() -> Path:
    """Returns the checkout of this project, which has the DAGs. Raises BadInput if this package was installed from a
    wheel, because there is no checkout then."""
    root = folders.project_root()
    if not (root / "dags" / "verify_delivery.py").is_file():
        allowed = "a checkout of this project, which holds dags/ and plugins/"
        raise bad_input("the current folder", str(root), allowed, "go to one, or run without Airflow: kdv run --direct")
    return root


def _airflow(port: int) -> dict[str, str]:
    options: dict[str, dict[str, object]] = {
        "core": {
            "dags_folder": _checkout() / "dags",
            "plugins_folder": _checkout() / "plugins",
            "load_examples": False,
            "min_serialized_dag_update_interval": 5,
            "dags_are_paused_at_creation": False,
            "executor": "LocalExecutor",
            "parallelism": 6,
            "auth_manager": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
            "simple_auth_manager_users": "admin:admin,viewer:viewer",
            "simple_auth_manager_all_admins": False,
            "simple_auth_manager_passwords_file": passwords_file(),
            "execution_api_server_url": f"{base_url(port)}/execution/",
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{airflow_home() / 'airflow.db'}"},
        "api": {"host": "127.0.0.1", "port": port, "base_url": base_url(port), "workers": 1},
        # By default, the scheduler waits up to a second between two tasks. Each time that the scheduler looks at the
        # tasks costs a few hundredths of a second of processor time.
        "scheduler": {
            "scheduler_idle_sleep_time": 0.3,
            "scheduler_heartbeat_sec": 2,
            "task_instance_heartbeat_timeout": 120,
            "enable_health_check": False,
        },
        # By default, a task gives up after five calls of the execution API, each of 5 s. On a busy host an answer takes
        # longer. A scheduled run may begin before the web server that answers: then eight calls take two minutes.
        "workers": {"execution_api_timeout": 60, "execution_api_retries": 8},
        # Airflow sees an edited DAG, or a new profile or application, within about 20 s.
        "dag_processor": {"refresh_interval": 15, "min_file_process_interval": 15, "parsing_processes": 1},
        "logging": {"base_log_folder": airflow_home() / "logs"},
    }
    return {
        f"AIRFLOW__{section.upper()}__{option.upper()}": str(value)
        for section, chosen in options.items()
        for option, value in chosen.items()
    }


def _secrets() -> dict[str, str]:
    """Returns the environment variables with the secrets that all processes of the local Airflow share. Otherwise each
    process would generate secrets of its own, and would reject the tokens of the other processes."""
    return {
        "AIRFLOW__API_AUTH__JWT_SECRET": _secret("jwt_secret", secrets.token_urlsafe),
        "AIRFLOW__API__SECRET_KEY": _secret("api_secret_key", secrets.token_urlsafe),
        "AIRFLOW__CORE__FERNET_KEY": _secret("fernet_key", _fernet_key),
    }


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _secret(name: str, make: Callable[[], str]) -> str:
    """Returns the stored secret called `name`. If there is no such secret, makes it with `make` and stores it."""
    return _ensure_file(folders.state_dir() / "secrets" / name, make)


def ensure_passwords() -> dict[str, str]:
    """Returns the users' passwords, by user name. Generates and stores the passwords if they are not stored yet."""
    users: dict[str, str] = json.loads(_ensure_file(passwords_file(), _new_passwords))
    return users


def ensure_configuration() -> None:
    """Writes airflow.cfg, if it is missing, with nothing but a comment. All settings are environment variables.

    Otherwise the processes of Airflow would all write this file at their first start, and could read half of it.
    """
    _ensure_file(airflow_home() / "airflow.cfg", lambda: "# `kdv up` gives all settings as environment variables.\n")


def _new_passwords() -> str:
    return json.dumps({user: secrets.token_urlsafe(12) for user in ("admin", "viewer")})


def _ensure_file(file: Path, make: Callable[[], str]) -> str:
    """Returns the text of a private file. If the file does not exist, creates it with the text that `make` returns.

    The new file is written under a temporary name, and then linked to `file`. So no process ever reads half of a file.
    """
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            stream.write(make())
        try:
            os.link(partial, file)
        except FileExistsError:
            pass  # another process has created the file first: the secret of that process counts
        finally:
            partial.unlink()
    return file.read_text()

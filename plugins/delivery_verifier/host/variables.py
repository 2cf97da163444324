"""The environment variables KDV_*: which variables exist, and which values are allowed. Warns about unknown variables.

A variable that holds an empty text counts as unset.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from delivery_verifier.model.inputs import bad_input, nearest, whole

KEPT_WORKSPACES = 3
"""The greatest number of workspaces that are kept, unless KDV_KEPT sets another number. A workspace is the folder of a
run's private files, e.g. of the brokers' data. It is kept if the run ended VIOLATED, or if KDV_KEEP is 1."""
SOCKET_PATH_BYTES = 107
"""The greatest length of a Unix socket's path in bytes. Linux has no room for more in a socket's address."""
_CRON = re.compile(r"[0-9*/,-]+ [0-9*/,-]+ [0-9*/,-]+ [A-Za-z0-9*/,-]+ [A-Za-z0-9*/,#-]+")
_IN_A_WORKSPACE = len("/12345678/agent.sock")
"""The length, in bytes, of the part of a socket's path that follows the folder of all workspaces."""


def path(name: str) -> Path | None:
    """Returns the path that the variable `name` holds, or None if the variable is unset.

    Raises BadInput for a relative path.
    """
    text = os.environ.get(name, "")
    if not text:
        return None
    if not Path(text).is_absolute():
        example = os.path.abspath(text)  # noqa: PTH100 (pathlib would not remove the dots)
        raise bad_input(name, text, "an absolute path", f"e.g. {name}={example}")
    return Path(text)


def short_path(name: str) -> Path | None:
    """Returns the path that the variable `name` holds, or None if the variable is unset. The path is a folder of
    workspaces.

    Raises BadInput for a relative path, and for a path that is too long. Each workspace holds a Unix socket, and Linux
    allows at most 107 bytes (SOCKET_PATH_BYTES) for the path of a socket.
    """
    folder, most = path(name), SOCKET_PATH_BYTES - _IN_A_WORKSPACE
    if folder is not None and len(os.fsencode(folder)) > most:
        raise bad_input(name, str(folder), f"a path of at most {most} bytes, for a Unix socket to fit", "e.g. /tmp/kdv")
    return folder


def flag(name: str) -> bool:
    """Returns whether the variable `name` is 1. Raises BadInput unless the variable is 1, 0, empty or unset."""
    text = os.environ.get(name, "")
    if text not in ("", "0", "1"):
        raise bad_input(name, text, "0 or 1", f"e.g. {name}=1")
    return text == "1"


def number(name: str, default: int, low: int, high: int) -> int:
    """Returns the whole number that the variable `name` holds, or `default` if the variable is unset.

    Raises BadInput if the value is not a whole number from `low` to `high`.
    """
    text = os.environ.get(name, "")
    return whole(name, text, low, high, example=default) if text else default


def url(name: str, default: str) -> str:
    """Returns the base URL that the variable `name` holds, or `default` if the variable is unset.

    The result has no slash at its end. Raises BadInput if the value is not an http or https URL.
    """
    text = os.environ.get(name, "") or default
    try:
        parts = urlsplit(text)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or any(char.isspace() for char in text):
        raise bad_input(
            name, text, "a URL that begins with http:// or https:// and names a host", f"e.g. {name}={default}"
        )
    return text.rstrip("/")


def cron(name: str) -> str:
    """Returns the schedule that the variable `name` holds: 1, 0, or a cron expression of five fields.

    The caller reads 1 as the default schedule, and 0 as never. Returns an empty text if the variable is unset. Raises
    BadInput for any other value.
    """
    text = " ".join(os.environ.get(name, "").split())
    return text if text in ("0", "1") else as_cron(name, text, "1, 0 or ")


def as_cron(name: str, text: str, others: str = "") -> str:
    """Returns `text`, a cron expression of five fields, or an empty text. Raises BadInput for any other text. `name`
    says where it stands, and `others` what else is allowed there."""
    text = " ".join(text.split())
    if text and not _CRON.fullmatch(text):
        raise bad_input(name, text, f"{others}a cron expression of five fields", f'e.g. {name}="0 2 * * *"')
    return text


def workspaces_to_keep() -> int:
    """Returns the maximum number of workspaces that are kept: KDV_KEPT or, if that variable is unset, 3
    (KEPT_WORKSPACES).

    A workspace is the folder of a run's private files. It is kept only if the run ended VIOLATED, or if KDV_KEEP is 1.
    """
    return number("KDV_KEPT", KEPT_WORKSPACES, 0, 1000)


KNOWN: dict[str, Callable[[str], object]] = {
    "KDV_HOME": path,
    "KDV_RUNS": path,
    "KDV_CACHE": path,
    "KDV_APPLICATIONS": path,
    "KDV_CONNECTIONS": path,
    "KDV_COMMANDS": path,
    "KDV_LOCK": path,
    "KDV_WORKSPACES": short_path,
    "KDV_SPARK_WORKSPACES": path,
    "KDV_KEEP": flag,
    "KDV_KEPT": lambda name: number(name, KEPT_WORKSPACES, 0, 1000),
    "KDV_PORT": lambda name: number(name, 8080, 1, 65535),
    "KDV_MAVEN_MIRROR": lambda name: url(name, "https://repo1.maven.org/maven2"),
    "KDV_NOTIFY_EMAIL": str,
    "KDV_NOTIFY_SLACK": str,
    "KDV_NOTIFY_WEBHOOK": str,
    "KDV_NIGHTLY": cron,
    "KDV_NIGHTLY_CLUSTER": str,
    "KDV_AUDIT": path,
    "KDV_SENTINEL": path,
    "KDV_EXPECT_UNAVAILABLE": str,
    "KDV_CLUSTER": str,
    "KDV_BOOTSTRAP_SERVERS": str,
    "KDV_GATEWAY_URL": lambda name: url(name, "http://fault-gateway:8700"),
    "KDV_GATEWAY_TOKEN": str,
    "KDV_GATEWAY_PROJECT": str,
    "KDV_GATEWAY_ENGINE": path,
    "KDV_GATEWAY_PORT": lambda name: number(name, 8700, 1, 65535),
    "KDV_COMMIT": str,
    "KDV_SPARK_JARS": str,
    "KDV_LOCAL_AIRFLOW": str,
    "KDV_WRITE_ARCHIVES": flag,
}
"""Maps the name of each variable to the function that reads the variable. The function raises BadInput for a value that
is not allowed. docker-compose.yml sets KDV_CLUSTER and the variables of the brokers' addresses and of the fault
gateway. The program itself, its image or `make setup` sets the last four variables. Users set all others."""


def check() -> list[str]:
    """Returns a warning for each unknown variable. Raises BadInput if a known variable has a value that is not allowed.

    An unknown variable has a name that begins with KDV_ but is missing from the table KNOWN. A variable whose name
    begins with KDV_TEST_ gets no warning, because the tests use such names.
    """
    for name, read in KNOWN.items():
        read(name)
    unknown = sorted(name for name in os.environ if name.startswith("KDV_") and name not in KNOWN)
    return [_warning(name) for name in unknown if not name.startswith("KDV_TEST_")]


def _warning(name: str) -> str:
    near = nearest(name, KNOWN)
    return f"warning: {name} is set, and has no effect" + (f"; did you mean {near}?" if near else "")

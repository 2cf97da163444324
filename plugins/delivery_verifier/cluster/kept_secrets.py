"""A workspace that is kept explains a verdict, and nobody needs its secrets for that: they are taken out.

While a run goes on, three kinds of files in its workspace hold secrets, all of mode 0600: the spec of each client and
member (`SPEC`), which has the properties of its connection; the file that Spark reads (`spark_options`); and the
connections that Airflow's tasks hand to other processes (`airflow_connections`). Whatever else a run writes there, it
writes without them.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from delivery_verifier.cluster.security import names
from delivery_verifier.host import private_files
from delivery_verifier.host.supervision.children import SPEC

REMOVED = "(removed)"
"""What stands in a kept spec in place of a secret."""


def remove(workspace: Path) -> None:
    """Takes the secrets out of all files of `workspace`. Its run must be over: no process of it reads them again."""
    for file in workspace.glob("*.properties"):
        file.unlink()
    for file in workspace.rglob(SPEC):
        _blank(file)


def _blank(file: Path) -> None:
    try:
        spec = msgspec.json.decode(file.read_bytes(), type=dict[str, object])
    except msgspec.DecodeError:  # a killed process has written only a part
        file.unlink()
        return
    connection = spec.get("connection")
    if isinstance(connection, dict) and (secret := names.SECRETS & connection.keys()):
        spec["connection"] = connection | dict.fromkeys(secret, REMOVED)
        private_files.write(file, msgspec.json.encode(spec))

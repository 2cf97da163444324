"""The commands `kdv up` and `kdv down`, which start and stop the local Airflow, and `kdv doctor`, which checks this
host."""

from __future__ import annotations

import argparse
import json

import msgspec

from delivery_verifier.command_line import parsers
from delivery_verifier.command_line.parsers import Add
from delivery_verifier.command_line.stored import password_file
from delivery_verifier.host import folders
from delivery_verifier.upkeep import doctor


def register(add: Add) -> None:
    """Adds `kdv up`, `kdv down` and `kdv doctor` to the command line by calls of `add` (see `parsers.Add`)."""
    add("up", up, "Bring up the local Airflow, for the UI and the nightly runs.").add_argument(
        "--port", metavar="N", help="its port (default 8080, or KDV_PORT)"
    )
    add("down", down, "Stop the local Airflow and everything it started.")
    check = add("doctor", doctor_, "Check this host, with a remedy for whatever is missing.")
    check.add_argument("--heal", action="store_true", help="end what a broken run left behind")
    check.add_argument("--json", action="store_true")


def up(arguments: argparse.Namespace) -> int:
    """Carries out `kdv up`: starts the local Airflow, and prints its address. Returns 0."""
    from delivery_verifier.orchestration.local import lifecycle

    folders.require_writable()
    print(f"Airflow: {lifecycle.up(parsers.port(arguments)).url}  (user admin, password in {password_file()})")
    return 0


def down(_arguments: argparse.Namespace) -> int:
    """Carries out `kdv down`: stops the local Airflow, if it runs. Returns 0."""
    from delivery_verifier.orchestration.local import lifecycle

    print("Airflow is stopped" if lifecycle.down() else "Airflow was not running")
    return 0


def doctor_(arguments: argparse.Namespace) -> int:
    """Carries out `kdv doctor`: checks this host. Returns 0 if every check is ok, else 1.

    With --heal, first ends the runs on this host, and removes what ended runs left behind.
    """
    if arguments.heal:
        for line in doctor.heal():
            print(f"healed: {line}")
    checks = doctor.examine()
    if arguments.json:
        print(json.dumps([msgspec.to_builtins(check) for check in checks], indent=2))
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'} {check.name:<10} {check.found}")
            if not check.ok:
                print(f"     remedy: {check.remedy}")
    return 0 if all(check.ok for check in checks) else 1

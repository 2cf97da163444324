"""The commands `kdv up`, `kdv down`, `kdv stop` and `kdv doctor`.

`kdv up` starts the local Airflow, and `kdv down` stops it. `kdv stop` ends a run. `kdv doctor` checks this host.
"""

from __future__ import annotations

import argparse
import json
import sys

import msgspec

from delivery_verifier.command_line import parsers
from delivery_verifier.command_line.parsers import Add
from delivery_verifier.command_line.stored import password_file
from delivery_verifier.host import folders
from delivery_verifier.model.inputs import BadInput


def register(add: Add) -> None:
    """Adds `kdv up`, `kdv down`, `kdv stop` and `kdv doctor` to the command line by calls of `add` (see
    `parsers.Add`)."""
    add("up", up, "Bring up the local Airflow, for the UI and the nightly runs.").add_argument(
        "--port", metavar="N", help="its port (default 8080, or KDV_PORT)"
    )
    add("down", down, "Stop the local Airflow and everything it started.")
    ending = add("stop", stop_, "End the run that uses this host, on purpose. It gets no verdict.")
    ending.add_argument("run", nargs="?", metavar="RUN", help="name of the run (default: whichever uses this host)")
    ending.add_argument("--yes", action="store_true", help="do not ask")
    check = add("doctor", doctor_, "Check this host, with a remedy for whatever is missing.")
    check.add_argument("--heal", action="store_true", help="remove what ended runs left behind; a run goes on")
    check.add_argument("--json", action="store_true")


def up(arguments: argparse.Namespace) -> int:
    """Carries out `kdv up`: starts the local Airflow, and prints its address. Returns 0."""
    from delivery_verifier.local_airflow import lifecycle

    folders.require_writable()
    print(f"Airflow: {lifecycle.up(parsers.port(arguments)).url}  (user admin, password in {password_file()})")
    return 0


def down(_arguments: argparse.Namespace) -> int:
    """Carries out `kdv down`: stops the local Airflow, if it runs. Returns 0."""
    from delivery_verifier.local_airflow import lifecycle

    print("Airflow is stopped" if lifecycle.down() else "Airflow was not running")
    return 0


def stop_(arguments: argparse.Namespace) -> int:
    """Carries out `kdv stop`: shows the run that uses this host, asks the user, and ends the run.

    Returns 0, or 1 if the user says no. Raises BadInput if no run uses this host, or if the user names another run.
    Also raises BadInput if the command cannot ask the user, because there is no terminal, and --yes is not given.
    """
    from delivery_verifier.maintenance import stop

    lock_owner = stop.running(arguments.run)
    print(lock_owner, flush=True)
    if not arguments.yes:
        if not sys.stdin.isatty():
            raise BadInput("--yes is missing; allowed without a terminal: only with it, because the command cannot ask")
        question = "End this run? It gets no verdict, unless its topics have been read. [y/N] "
        if input(question).strip().lower() not in ("y", "yes"):
            print("the run goes on")
            return 1
    print(stop.end(lock_owner))
    return 0


def doctor_(arguments: argparse.Namespace) -> int:
    """Carries out `kdv doctor`: checks this host. Returns 0 if every check is ok, else 1.

    With --heal, first removes what ended runs left behind. While a run uses the host, --heal removes nothing.
    """
    from delivery_verifier.maintenance import doctor

    if arguments.heal:
        for line in doctor.heal():
            print(line)
    checks = doctor.examine()
    if arguments.json:
        print(json.dumps([msgspec.to_builtins(check) for check in checks], indent=2))
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'} {check.name:<10} {check.found}")
            if not check.ok:
                print(f"     remedy: {check.remedy}")
    return 0 if all(check.ok for check in checks) else 1

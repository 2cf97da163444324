"""Triggers *Verify delivery* through the API of the composed Airflow, waits for its end, and prints the verdict.

Runs in the container of the api-server: `make compose-verify OPTIONS="--profile acks_1 --fault kill_leader"`. It takes
the options of `kdv run` that describe a run. The exit code is that of `kdv run`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from delivery_verifier.command_line import options
from delivery_verifier.command_line.stored import read_verdict
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.orchestration.client import ENDED, AirflowSilent, Client, ui_url
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.planning.consistency import as_conf
from delivery_verifier.reporting import terminal

API = "http://localhost:8080"
PASSWORDS = Path("/opt/kdv/airflow/passwords.json")
PARSED_WITHIN_S, ENDS_WITHIN_S = 120.0, 3600.0


def main() -> int:
    """Carries out the command. Returns the exit code of the verdict, or 70 if the run has no verdict."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    options.add(parser)
    parser.add_argument("--run-id", default=folders.new_run_id(), help="name of the run (default: the time)")
    url = os.environ.get("AIRFLOW__API__BASE_URL", API)
    parser.add_argument("--url", default=url, help="address of the UI as the user sees it, for the link")
    arguments = parser.parse_args()
    run_id = folders.check_run_id(arguments.run_id)
    client = Client(API, "admin", json.loads(PASSWORDS.read_text())["admin"])
    try:
        wait_until(lambda: is_parsed(client), f"{DAG_ID} is parsed", PARSED_WITHIN_S, every_s=1.0)
        client.trigger(DAG_ID, run_id, as_conf(options.params_of(arguments)))
        url = ui_url(arguments.url, DAG_ID, run_id)
        print(f"this run: {url}", flush=True)
        state = wait_until(lambda: end(client, run_id), f"run {run_id} ends", ENDS_WITHIN_S, every_s=2.0)
        return tell(client, run_id, state, url)
    except VerifierError as error:
        print(f"no verdict: {error}", file=sys.stderr)
        return 70


def is_parsed(client: Client) -> bool:
    """Whether Airflow knows the DAG. Raises AirflowError if a DAG file does not load."""
    if errors := client.import_errors():
        raise VerifierError(f"Airflow cannot load {', '.join(errors)}: {' '.join(errors.values())}")
    return any(dag["dag_id"] == DAG_ID for dag in client.get("/dags")["dags"])


def end(client: Client, run_id: str) -> str | None:
    """Returns the state of a run that has ended. Returns None if the run goes on, or if Airflow was too busy to
    answer."""
    try:
        state = client.state(DAG_ID, run_id)
    except AirflowSilent:
        return None
    return state if state in ENDED else None


def tell(client: Client, run_id: str, state: str, url: str) -> int:
    """Prints the verdict, or what failed. Returns the exit code.

    A verdict counts only if it agrees with the state of the run, and if no task but the gate failed.
    """
    failed = [task for task in client.tasks(DAG_ID, run_id) if task.state == "failed"]
    gate_alone = [task.task_id for task in failed] == ["conclude"]
    run_dir = folders.run_directory(run_id)
    if (failed and not gate_alone) or not (run_dir / "conclude.json").is_file():
        for task in failed:
            print("\n".join([f"{task.task_id} failed:", *client.log_tail(DAG_ID, run_id, task)]), file=sys.stderr)
        raise VerifierError(f"the run is {state}")
    verdict = read_verdict(run_dir)
    if verdict.green != (state == "success"):
        raise VerifierError(f"the run is {state} though its verdict is {verdict.verdict}")
    terminal.write(verdict, sys.stdout, runs=run_dir.parent)
    print(f"report     {url}, tab Delivery report; log in as admin, with KDV_ADMIN_PASSWORD from .env")
    return verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())

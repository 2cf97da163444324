"""Waits until Airflow's form offers an application of the user's own.

Airflow refuses an application that its form does not offer. It makes the form when it reads the file of the DAG, at
intervals. So for some seconds after an operator has written the TOML file of an application, Airflow does not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow.run import patiently
from delivery_verifier.orchestration.client import Client
from delivery_verifier.orchestration.names import DAG_ID

WITHIN_S = 120.0
"""Seconds within which Airflow must offer the application. Airflow reads the file of the DAG every 15 s (see
`settings`), and more slowly on a busy host."""
_FIELD = "application"


def wait(client: Client, params: Mapping[str, object], say: Callable[[str], None]) -> None:
    """Waits until the form of the DAG offers the application that `params`, the fields of a run, name.

    Returns at once if the form offers it already, or if `params` name none. `say` gets a line for the user if there is
    something to wait for. Raises DeadlinePassed after WITHIN_S seconds, and AirflowError if Airflow cannot be reached.
    """
    name = params.get(_FIELD)
    offers = partial(patiently, lambda: name in _offered(client))
    if name is None or offers():
        return
    say(f"waiting until Airflow has noticed the new application {name}")
    wait_until(offers, f"Airflow to offer the application {name}", WITHIN_S, every_s=1.0)


def _offered(client: Client) -> list[object]:
    """Returns the applications that the form offers."""
    offered: list[object] = client.get(f"/dags/{DAG_ID}/details")["params"][_FIELD]["schema"]["enum"]
    return offered

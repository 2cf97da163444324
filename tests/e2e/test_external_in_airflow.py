"""Runs through Airflow on a cluster that somebody else runs, over SASL_SSL: once Spark is a Spark Connect server, once
the job is submitted. They are HELD, and none of five secrets stands anywhere afterwards. A sixth, which the test plants
itself, is found.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import pytest
from support import secret_hunt
from support.airflow import LocalAirflow
from support.certificates import KEY_PASSWORD, STORE_PASSWORD
from support.patience import PATIENCE_S
from support.secured_cluster import CLUSTER_ID, USERS, SecuredCluster, secured_cluster
from support.shown_spark import SHOWN, ShownServer, ask, shown_server

from delivery_verifier.cluster import workspaces
from delivery_verifier.cluster.security import jaas
from delivery_verifier.command_line.stored import read_verdict
from delivery_verifier.local_airflow.settings import SPARK_HOST, SPARK_VARIABLE
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.run_directory.run_directory import RunDirectory

CONN_ID, MOUNTED = "kafka_of_tests", "mounted"
PARAMS: dict[str, Any] = {"profile": "safe", "fault": "none", "records": 2000, "duration_s": 4, "rate": 500}
SCENARIOS = ("producer.terminated", "acks_1.frozen_followers")
SERVER_RUN, SUBMITTED_RUN = "external-by-server", "external-submitted"


class Hunted(NamedTuple):
    """What was done, and what is hunted for: `secrets`, in `places` and in `said`, what a command has printed.
    `in_processes`: where a secret stood in a command line or in an environment while the runs were under way. `pages`:
    the places in Spark's pages. `planted`: the sixth secret, and where it was found."""

    secrets: list[str]
    places: list[Path]
    said: str
    in_processes: set[str]
    pages: list[str]
    planted: str
    shown: list[str]


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster that nothing of the verifier has started. Two users have exactly the documented rights."""
    users = {user: f"{user}-{secrets.token_hex(8)}" for user in (*USERS, MOUNTED)}
    with secured_cluster(tmp_path_factory.mktemp("secured"), users=users) as cluster:
        for user in ("verifier", MOUNTED):
            cluster.grant_exactly(PARAMS, user)
        yield cluster


def extra_of(cluster: SecuredCluster) -> dict[str, str]:
    """The `extra` of Airflow's connection: a JAAS configuration, and a key store with its password."""
    module, password = jaas.MODULES["SCRAM-SHA-512"], cluster.users["verifier"]
    return {
        "bootstrap.servers": cluster.servers(),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="verifier" password="{password}";',
        "ssl.truststore.location": str(cluster.certificates / "ca.pem"),
        "ssl.keystore.location": str(cluster.certificates / "verifier.p12"),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": STORE_PASSWORD,
    }


def mount(cluster: SecuredCluster, folder: Path) -> None:
    """Writes a folder as Kubernetes mounts a secret: one file per property, and a key with a password."""
    folder.mkdir(parents=True)
    texts = {
        "bootstrap.servers": cluster.servers(),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "username": MOUNTED,
        "password": cluster.users[MOUNTED],
        "ssl.key.password": KEY_PASSWORD,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for name, copied in {"ca.crt": "ca.pem", "user.crt": "verifier.crt", "user.key": "verifier.locked.key"}.items():
        shutil.copyfile(cluster.certificates / copied, folder / name)
    for file in folder.iterdir():
        file.chmod(0o440)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, e2e_host: Path) -> Iterator[LocalAirflow]:
    """A local Airflow of this module, which a test brings up: it has another Spark than that of all other tests."""
    made = LocalAirflow(tmp_path_factory.mktemp("external") / "home")
    try:
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module")
def hunted(strangers: SecuredCluster, airflow: LocalAirflow, tmp_path_factory: pytest.TempPathFactory) -> Hunted:
    """The two runs, and a part of the catalogue; and where secrets were seen while they were under way."""
    folder, planted = tmp_path_factory.mktemp("hunted"), f"planted-{secrets.token_hex(8)}"
    mount(strangers, folder / "connections" / MOUNTED)
    keys = ("verifier.key", "verifier.locked.key")
    lines = [(strangers.certificates / key).read_text().splitlines()[1] for key in keys]
    hunted_for = [strangers.users["verifier"], STORE_PASSWORD, strangers.users[MOUNTED], KEY_PASSWORD, *lines]
    with (
        pytest.MonkeyPatch.context() as patch,
        shown_server(folder / "server") as server,
        secret_hunt.watching_processes(hunted_for) as in_processes,
    ):
        patch.setenv("KDV_CONNECTIONS", str(folder / "connections"))
        patch.setenv(SPARK_VARIABLE, spark_connection(server))
        airflow.up()
        connection = {"connection_id": CONN_ID, "conn_type": "kafka", "extra": json.dumps(extra_of(strangers))}
        airflow.http("admin").post("/api/v2/connections", json=connection).raise_for_status()
        airflow.run({**PARAMS, "cluster": f"airflow:{CONN_ID}"}, SERVER_RUN)
        pages, _ = secret_hunt.in_ui(server.ui, hunted_for)
        ask("plant", server.url, str(airflow.runs / SERVER_RUN / "scenario.json"), planted)
        shown, _ = secret_hunt.in_ui(server.ui, [planted])
        airflow.down()
        patch.setenv(SPARK_VARIABLE, '{"conn_type":"spark","host":"local[2]"}')
        patch.setenv("SPARK_CONF_DIR", str(shown_defaults(folder / "submitted")))
        airflow.up()
        options = [word for name, value in PARAMS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        said = typed(airflow, "run", "--cluster", MOUNTED, "--run-id", SUBMITTED_RUN, *options)
        said += typed(airflow, "catalogue", "--cluster", MOUNTED, *SCENARIOS)
        airflow.client().note(DAG_ID, SUBMITTED_RUN, planted)
    places = [airflow.home, workspaces.folder(), folder / "server", folder / "submitted"]
    return Hunted(hunted_for, places, said, in_processes, pages, planted, shown)


def spark_connection(server: ShownServer) -> str:
    address, _, token = server.url.partition("/;token=")
    return json.dumps(
        {"conn_type": "spark_connect", "host": SPARK_HOST, "port": urlsplit(address).port, "password": token}
    )


def shown_defaults(folder: Path) -> Path:
    """Makes a folder of Spark's settings with which a job that is submitted writes its event log into `folder`."""
    (folder / "conf").mkdir(parents=True)
    (folder / "events").mkdir()
    properties = SHOWN | {"spark.eventLog.dir": (folder / "events").as_uri()}
    text = "".join(f"{name} {value}\n" for name, value in properties.items())
    (folder / "conf" / "spark-defaults.conf").write_text(text)
    return folder / "conf"


def typed(airflow: LocalAirflow, *words: str) -> str:
    """Types a command of `kdv` that goes through Airflow and ends green, and returns what it said."""
    with airflow.environment():
        command = [sys.executable, "-m", "delivery_verifier", *words]
        ended = subprocess.run(command, capture_output=True, timeout=4 * PATIENCE_S, check=False)
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 0, said[-4000:]
    return said


@pytest.mark.parametrize(
    ("run_id", "spark", "cluster"),
    [(SERVER_RUN, "Spark Connect", f"airflow:{CONN_ID}"), (SUBMITTED_RUN, "local[2]", MOUNTED)],
)
def test_a_run_is_held_with_either_way_to_spark_and_leaves_nothing_on_the_cluster(
    hunted: Hunted, airflow: LocalAirflow, strangers: SecuredCluster, run_id: str, spark: str, cluster: str
) -> None:
    run = RunDirectory(airflow.runs / run_id)
    verdict, scenario = read_verdict(run.path), run.read_scenario()
    assert (verdict.verdict, verdict.green) == ("HELD", True)
    assert scenario.cluster.external is not None and scenario.cluster.external.cluster_id == CLUSTER_ID
    assert scenario.command.endswith(f"--cluster {cluster}") and "--direct" not in scenario.command
    assert run.manifest("reconcile").notes["spark"].startswith(spark)
    assert {task.state for task in airflow.client().tasks(DAG_ID, run_id)} == {"success"}
    assert {*strangers.operator.list_topics(timeout=PATIENCE_S).topics} <= {"__consumer_offsets", "__transaction_state"}
    assert not list(airflow.home.glob(".kdv/clusters/*/*.jsonl"))


def test_the_command_and_the_log_of_the_step_plan_say_what_was_found(hunted: Hunted, airflow: LocalAirflow) -> None:
    assert f"cluster  {CLUSTER_ID}, as User:{MOUNTED}" in hunted.said and "HELD (as expected)" in hunted.said
    client = airflow.client()
    (plan,) = [task for task in client.tasks(DAG_ID, SERVER_RUN) if task.task_id == "plan"]
    log = "\n".join(client.log_tail(DAG_ID, SERVER_RUN, plan, 60))
    assert f"cluster  {CLUSTER_ID}, as User:verifier" in log and "eligible leader replicas: " in log


def test_of_the_catalogue_what_fits_is_run_there_and_the_rest_is_unavailable_and_green(
    hunted: Hunted, airflow: LocalAirflow
) -> None:
    (folder,) = [*airflow.runs.glob("catalogues/*")]
    with airflow.environment():
        ended = catalogue_runs.read(folder.name)
    assert {item.name: (item.state, item.green) for item in ended.items} == {
        "producer.terminated": ("as expected", True),
        "acks_1.frozen_followers": ("unavailable", True),
    }
    (attempt,) = ended.items[0].attempts or ended.items[1].attempts
    external = RunDirectory(airflow.runs / attempt.run).read_scenario().cluster.external
    assert external is not None and external.cluster_id == CLUSTER_ID
    assert ended.external is not None and ended.external.cluster == MOUNTED


def test_no_secret_stands_in_any_file_process_page_or_answer(hunted: Hunted, airflow: LocalAirflow) -> None:
    assert secret_hunt.in_files(hunted.places, hunted.secrets) == []
    assert hunted.in_processes == set() and hunted.pages == []
    assert secret_hunt.in_text(hunted.said.encode(), hunted.secrets) == []
    texts = dict(answers(airflow))
    assert len(texts) > 30 and all(b"scenario.json" not in text or text for text in texts.values())
    assert [path for path, text in texts.items() if secret_hunt.in_text(text, hunted.secrets)] == []


def test_a_sixth_secret_that_is_planted_is_found_in_database_answers_pages_and_event_log(
    hunted: Hunted, airflow: LocalAirflow
) -> None:
    files = secret_hunt.in_files(hunted.places, [hunted.planted])
    assert any("airflow.db" in place for place in files) and any("/events/" in place for place in files), files
    assert any("/connect/" in page for page in hunted.shown)
    assert [path for path, text in answers(airflow) if secret_hunt.in_text(text, [hunted.planted])]


def answers(airflow: LocalAirflow) -> Iterator[tuple[str, bytes]]:
    """Yields the paths and contents of Airflow's answers about both runs, and of the pages of the verifier."""
    http, client = airflow.http("admin"), airflow.client()
    for run_id in (SERVER_RUN, SUBMITTED_RUN):
        of_run = f"/api/v2/dags/{DAG_ID}/dagRuns/{run_id}"
        paths = [of_run, f"/delivery/dag/{DAG_ID}/{quote(run_id)}/"]
        for task in client.tasks(DAG_ID, run_id):
            of_task = f"{of_run}/taskInstances/{task.task_id}"
            paths += [of_task, f"{of_task}/logs/1?full_content=true", f"{of_task}/xcomEntries"]
            keys = client.get(f"{of_task}/xcomEntries".removeprefix("/api/v2"))["xcom_entries"]
            paths += [f"{of_task}/xcomEntries/{entry['key']}" for entry in keys]
        for path in (*paths, "/delivery/", "/api/v2/eventLogs?limit=500", f"/api/v2/dags/{DAG_ID}/details"):
            yield f"{run_id} {path}", http.get(path, follow_redirects=True).raise_for_status().content

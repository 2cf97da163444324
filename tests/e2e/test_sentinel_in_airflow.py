"""Tests of a sentinel through a real scheduler on a cluster that somebody else runs: it is HELD twice, gives way to a
run of somebody else, and fails when the cluster is gone. People are told of the turn alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import NewTopic
from support import prometheus_text
from support.airflow import LocalAirflow
from support.mail import Sink, sink
from support.new_topics import create_topics
from support.patience import LOOK_EVERY_S, PATIENCE_S
from support.secured_cluster import SecuredCluster, secured_cluster

from delivery_verifier.cluster.external import runs
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.orchestration.names import SENTINEL_DAG_ID
from delivery_verifier.planning import sentinel
from delivery_verifier.run_directory import sentinel_history
from delivery_verifier.run_directory.sentinel_history import History

CLUSTER = "staging"
FIRST, SECOND, SKIPPED, FAILED = "sentinel-1", "sentinel-2", "sentinel-3", "sentinel-4"


class Watched(NamedTuple):
    """What became of four runs. `said`: the tab of each run. `gauges`: the file for Prometheus after each. `topics`:
    what stood on the cluster after the first three. `mails`: what people were told."""

    airflow: LocalAirflow
    states: dict[str, str]
    tasks: dict[str, dict[str, str | None]]
    said: dict[str, str]
    gauges: list[prometheus_text.Read]
    history: History
    topics: set[str]
    mails: Sink
    page: str


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster that nothing of the verifier has started. The sentinel's user has exactly the documented rights."""
    with secured_cluster(tmp_path_factory.mktemp("secured")) as cluster:
        cluster.grant_exactly(sentinel.request_of(sentinel.settings().fields | {"cluster": CLUSTER, "beside": ""}))
        yield cluster


def write_files(folder: Path, cluster: SecuredCluster) -> None:
    """Writes what an operator writes: the connection, and the file of the sentinel. Nothing is scheduled."""
    for name in ("connections", "textfile"):
        (folder / name).mkdir()
    connection = folder / "connections" / f"{CLUSTER}.properties"
    connection.write_text("".join(f"{name}={value}\n" for name, value in cluster.properties().items()))
    connection.chmod(0o600)
    settings = {"cluster": CLUSTER, "metrics": str(folder / "textfile"), "keep": 1}
    (folder / "sentinel.json").write_text(json.dumps(settings))


def run(airflow: LocalAirflow, run_id: str) -> None:
    """Lets the sentinel run once, with the values of its file."""
    airflow.client().trigger(SENTINEL_DAG_ID, run_id, {})
    airflow.wait_until_ended(run_id, SENTINEL_DAG_ID, 3 * PATIENCE_S)


@pytest.fixture(scope="module")
def watched(strangers: SecuredCluster, tmp_path_factory: pytest.TempPathFactory, e2e_host: Path) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("sentinel")
    write_files(folder, strangers)
    airflow, gauges = LocalAirflow(folder / "home"), list[prometheus_text.Read]()
    with pytest.MonkeyPatch.context() as patch, sink() as mails:
        patch.setenv("KDV_CONNECTIONS", str(folder / "connections"))
        patch.setenv(sentinel.VARIABLE, str(folder / "sentinel.json"))
        patch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", mails.connection)
        patch.setenv("KDV_NOTIFY_EMAIL", "whoever@localhost")
        try:
            airflow.up()
            for run_id in (FIRST, SECOND, SKIPPED, FAILED):
                theirs = runs.announcement("0ther000", "nightly-of-another-home")
                if run_id == SKIPPED:
                    create_topics(strangers.properties("operator"), NewTopic(theirs, 1, 3))
                if run_id == FAILED:
                    strangers.stop()
                run(airflow, run_id)
                if run_id == SKIPPED:
                    strangers.operator.delete_topics([theirs_of(strangers)])
                    topics = {*strangers.operator.list_topics(timeout=PATIENCE_S).topics}
                (file,) = (folder / "textfile").iterdir()
                gauges.append(prometheus_text.read(file.read_text()))
            wait_until(lambda: len(mails.mails) > 0, "the mail about the turn", PATIENCE_S, LOOK_EVERY_S)
            with airflow.environment():
                yield watch(airflow, gauges, topics, mails)
        finally:
            airflow.down()


def theirs_of(cluster: SecuredCluster) -> str:
    """The topic that announces the other run."""
    (name,) = (name for name in cluster.operator.list_topics(timeout=PATIENCE_S).topics if "0ther000" in name)
    return name


def watch(airflow: LocalAirflow, gauges: list[prometheus_text.Read], topics: set[str], mails: Sink) -> Watched:
    client, http, all_runs = airflow.client(), airflow.http("admin"), (FIRST, SECOND, SKIPPED, FAILED)
    tabs = {run_id: f"/delivery/dag/{SENTINEL_DAG_ID}/{run_id}/" for run_id in all_runs}
    return Watched(
        airflow=airflow,
        states={run_id: client.state(SENTINEL_DAG_ID, run_id) for run_id in all_runs},
        tasks={
            run_id: {task.task_id: task.state for task in client.tasks(SENTINEL_DAG_ID, run_id)} for run_id in all_runs
        },
        said={run_id: http.get(path, follow_redirects=True).text for run_id, path in tabs.items()},
        gauges=gauges,
        history=sentinel_history.newest_of(CLUSTER),
        topics=topics,
        mails=mails,
        page=http.get("/delivery/sentinel/").raise_for_status().text,
    )


def test_it_is_held_twice_and_leaves_nothing_on_the_cluster(watched: Watched) -> None:
    for run_id in (FIRST, SECOND):
        assert watched.states[run_id] == "success" and {*watched.tasks[run_id].values()} == {"success"}
    results = {result.run: result for result in watched.history.results}
    assert [results[run_id].state for run_id in (FIRST, SECOND)] == ["HELD", "HELD"]
    (arm,) = results[SECOND].arms
    assert (arm.arm, arm.attempted, arm.acknowledged) == ("safe", 1000, 1000)
    assert arm.latency_ms_p50 and arm.latency_ms_p99 and arm.latency_ms_p50 <= arm.latency_ms_p99
    assert not any(name.startswith("kdv-") and "0ther000" not in name for name in watched.topics)
    assert not list(watched.airflow.home.glob(".kdv/clusters/*/*.jsonl"))


def test_of_held_runs_only_the_newest_directory_is_kept_and_the_history_has_both(watched: Watched) -> None:
    home = watched.airflow.runs
    assert not (home / FIRST).exists() and (home / SECOND / "report.html").is_file()
    assert not list(home.glob(f"data_docs/*/*/{FIRST}")) and list(home.glob(f"data_docs/validations/*/{SECOND}"))
    assert "The report is gone" in watched.said[FIRST] and "✔ HELD" in watched.said[SECOND]


def test_a_run_that_finds_another_on_the_cluster_is_skipped_and_says_which(watched: Watched) -> None:
    states = watched.tasks[SKIPPED]
    assert {*states.values()} == {"skipped"}, states
    assert "nightly-of-another-home" in watched.said[SKIPPED] and "The run was skipped" in watched.said[SKIPPED]
    (skipped,) = (result for result in watched.history.results if result.run == SKIPPED)
    assert skipped.state == "SKIPPED" and "nightly-of-another-home" in skipped.why


def test_a_run_without_a_cluster_is_red_and_says_why(watched: Watched) -> None:
    assert watched.states[FAILED] == "failed" and watched.tasks[FAILED]["plan"] == "failed"
    newest = watched.history.results[0]
    assert (newest.run, newest.state) == (FAILED, "NO VERDICT") and "127.0.0.1" in newest.why


def test_the_gauges_followed_each_run(watched: Watched) -> None:
    whole = {"cluster": CLUSTER}
    counted = [read.value("kdv_sentinel_runs_total", verdict="HELD", **whole) for read in watched.gauges]
    assert counted == [1, 2, 2, 2]
    held = [read.value("kdv_sentinel_last_run_verdict", verdict="HELD", **whole) for read in watched.gauges]
    assert held == [1, 1, 1, 0]
    times = [read.value("kdv_sentinel_last_run_timestamp_seconds", **whole) for read in watched.gauges]
    assert times[0] < times[1] == times[2] < times[3]


def test_people_are_told_of_the_turn_and_of_no_other_run(watched: Watched) -> None:
    assert [mail["Subject"] for mail in watched.mails.mails] == [
        f"Sentinel of {CLUSTER}: NO VERDICT, was HELD ({FAILED})"
    ]


def test_the_page_shows_all_four(watched: Watched) -> None:
    assert "<small>2 of 3</small>" in watched.page and all(run_id in watched.page for run_id in (SECOND, FAILED))
    assert "left no result" not in watched.page

"""Tests of the explanation before a run: what settings promise under a fault and without one, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from delivery_verifier.command_line import main as cli


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))


def test_the_explanation_says_what_holds_under_the_fault_and_what_always(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, dict[str, tuple[bool, bool]]] = {}
    for fault in ("none", "kill_leader"):
        assert cli.main(["explain", "--profile", "acks_1", "--fault", fault, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        found[fault] = {one["guarantee"]: (one["under_fault"], one["always"]) for one in told["guarantees"]}
        assert {ruling["anomaly"] for ruling in told["rulings"]} >= {"LOST", "DUPLICATED"} and told["rulings"][0][
            "source"
        ]
    assert found["none"] == {
        "at_most_once": (False, False),
        "at_least_once": (True, False),
        "exactly_once": (False, False),
        "ordered": (False, False),
    }
    assert found["kill_leader"]["at_least_once"] == (False, False)
    assert cli.main(["explain", "--profile", "safe"]) == 0
    assert "exactly_once   yes not always" in capsys.readouterr().out, (
        "a loss of all power, say, takes from every setting"
    )


def test_a_scenario_is_explained_arm_by_arm(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "--scenario", "unclean.stale_replica_elected", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    arms = {arm["arm"]: arm for arm in told["arms"]}
    ruled = {name: next(one for one in arm["rulings"] if one["anomaly"] == "LOST") for name, arm in arms.items()}
    assert (ruled["unclean"]["ruled_by"], ruled["unclean"]["source"]) == (
        "claim",
        "the claim of this arm, against lost.unclean",
    )
    assert ruled["safe"]["rule"] == "lost.never"
    assert "unclean_election" in arms["unclean"]["expected"] and "unclean_election" not in arms["safe"]["expected"]
    assert cli.main(["explain", "--scenario", "unclean.stale_replica_elected"]) == 0
    text = capsys.readouterr().out
    assert "subject unclean" in text and "control safe" in text and "expected: VIOLATED" in text


def test_the_explanation_has_the_matrix_and_says_why_the_settings_are_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["explain", "--profile", "safe", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["fault_class"] for row in told["matrix"]} >= {"crash", "partition", "power of all"}
    assert cli.main(["explain", "--profile", "safe", "--kafka-version", "4.0.2"]) == 0
    text = capsys.readouterr().out
    assert "lost.power_of_last" in text, "no eligible leader replicas before 4.1"
    assert "with acks=1\n    lost is at_least_once under leadership change, crash" in text


def explained(capsys: pytest.CaptureFixture[str], tmp_path: Path, client: str, text: str, *more: str) -> str:
    file = tmp_path / "own.properties"
    file.write_text(text)
    assert cli.main(["explain", "--producer-config", str(file), "--written-for", client, *more]) == 0
    return capsys.readouterr().out


CONNECT = "acks=all\nenable.idempotence=false\nmax.in.flight.requests.per.connection=1\n"


def test_a_java_file_is_told_where_the_java_client_differs_and_which_client_a_run_exercises(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = json.loads(explained(capsys, tmp_path, "java", CONNECT, "--json"))
    reordered = next(ruling for ruling in told["rulings"] if ruling["anomaly"] == "REORDERED")
    assert (reordered["ruling"], reordered["rule"]) == ("PERMITTED", "reordered.one_in_flight"), "librdkafka's"
    (difference,) = told["java"]["differences"]
    assert (difference["rule"], difference["permitted_with"]) == ("reordered.one_in_flight", "librdkafka")
    assert "crash" in difference["fault_classes"] and "Sender.sendProducerData: mutePartition" in difference["java"]
    ordered = [
        {row["fault_class"]: row["guarantees"]["ordered"] for row in rows}
        for rows in (told["matrix"], told["java"]["matrix"])
    ]
    assert not ordered[0]["crash"] and all(ordered[1].values())
    text = explained(capsys, tmp_path, "java", CONNECT)
    assert "a run exercises librdkafka with them, and the Java client if `--clients` names it" in text
    assert "permitted with librdkafka alone (reordered.one_in_flight)" in text
    assert "The Java client keeps the order" in text and "the Java client 4.x under each class of faults" in text


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("acks=all\nenable.idempotence=true\n", []),
        ("acks=1\n", []),
        ("acks=0\n", []),
        ("acks=0\nretries=0\n", []),
        ("acks=1\nretries=0\n", ["reordered.split", "duplicated.requeued"]),
    ],
)
def test_a_java_file_with_settings_of_each_kind_is_told_the_rules_by_which_the_clients_differ(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, rules: list[str]
) -> None:
    told = json.loads(explained(capsys, tmp_path, "java", text, "--json"))
    assert [difference["rule"] for difference in told["java"]["differences"]] == rules
    assert all(difference["java"] for difference in told["java"]["differences"])
    same = "with these settings the contract promises the same of both clients"
    assert (same in explained(capsys, tmp_path, "java", text)) is (not rules)


def test_a_librdkafka_file_is_told_nothing_of_the_java_client(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert json.loads(explained(capsys, tmp_path, "librdkafka", CONNECT, "--json"))["java"] is None
    assert "these settings were written for the Java client" not in explained(capsys, tmp_path, "librdkafka", CONNECT)


def test_the_explanation_says_that_order_is_of_first_copies(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "--profile", "in_flight_1"]) == 0
    assert "first copies in the order of sending" in capsys.readouterr().out


def test_a_plan_counts_one_of_a_thing_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--partitions", "1"]) == 0
    text = capsys.readouterr().out
    assert "topics   1 partition, 3 replicas each" in text and "kill_leader, 1 time: SIGKILL" in text


def test_before_a_run_no_reason_speaks_of_what_was_seen_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--fault", "all_brokers"]) == 0
    text = capsys.readouterr().out
    assert "seen in this run" not in text and "A killed broker keeps it." in text
    assert "in-sync replica lives" not in text, "none lives while all brokers are killed"

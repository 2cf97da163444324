"""Tests of bad input, for every way in which input can enter. The error is one line with field, value, allowed values
and a remedy, and never a traceback."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from support import report_material
from support.refusals import bare_host, refused

from delivery_verifier.command_line import main as cli
from delivery_verifier.host import variables
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario_checks import loads
from delivery_verifier.planning.build import scenario_from_params

MOST = "100000000000"


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return bare_host(tmp_path, monkeypatch)


OPTIONS: list[tuple[list[str], tuple[str, ...]]] = [
    (["--records", "abc"], ("records is 'abc'", f"a whole number from 1000 to {MOST}", "e.g. 20000")),
    (["--records", "-1"], ("records is '-1'", "from 1000 to")),
    (["--records", "0"], ("records is '0'", "from 1000 to")),
    (["--records", "999"], ("records is '999'", "from 1000 to", "e.g. 20000")),
    (
        ["--records", "1000", "--min-exposed", "1001"],
        ("records is 1000", "at least 1001", "lower cycles or min_exposed"),
    ),
    (["--records", "2000", "--cycles", "101"], ("records is 2000", "at least 2020, for each of 101 cycles")),
    (["--records", "1e20"], ("records is '1e20'", "a whole number")),
    (["--records", "100000000000000000000"], ("records is '100000000000000000000'", MOST)),
    (["--records", "NaN"], ("records is 'NaN'", "a whole number")),
    (["--records", ""], ("records is ''", "a whole number")),
    (["--records", "12.5"], ("records is '12.5'", "a whole number")),
    (["--records", "٣"], ("records is '٣'", "a whole number")),
    (["--records", "9" * 5000], ("records is '999", "(5000 characters)")),
    (["--rate", "0"], ("rate is '0'", "from 1 to")),
    (["--rate", "fast"], ("rate is 'fast'", "e.g. 2000")),
    (["--producers", "0"], ("producers is '0'", "from 1 to 64")),
    (["--producers", "65"], ("producers is '65'", "from 1 to 64")),
    (["--partitions", "0"], ("partitions is '0'", "from 1 to 1000")),
    (["--partitions", "1001"], ("partitions is '1001'", "from 1 to 1000")),
    (["--replication-factor", "4"], ("replication_factor is '4'", "from 1 to 3")),
    (["--replication-factor", "0"], ("replication_factor is '0'", "from 1 to 3")),
    (["--min-insync-replicas", "4"], ("min_insync_replicas is '4'", "from 1 to 3")),
    (
        ["--min-insync-replicas", "3", "--replication-factor", "2"],
        ("min.insync.replicas", "is 3", "from 1 to the replication factor, 2", "--min-insync-replicas"),
    ),
    (
        ["--replication-factor", "1"],
        ("min.insync.replicas of arm", "is 2", "replication factor, 1", "raise --replication-factor"),
    ),
    (["--payload-bytes", "69"], ("payload_bytes is '69'", "from 70 to 1000000")),
    (["--payload-bytes", "2000000"], ("payload_bytes is '2000000'", "from 70 to 1000000")),
    (["--transaction-records", "0"], ("transaction_records is '0'", "from 1 to 100000")),
    (["--abort-every", "1"], ("abort_every is '1'", "from 2 to 1000000")),
    (["--profile", "safe", "--abort-every", "5"], ("abort_every is 5", "no arm has a transactional.id")),
    (["--cycles", "0"], ("cycles is '0'", "from 1 to 1000")),
    (["--seed", "-3"], ("seed is '-3'", "from 0 to 2147483647")),
    (["--seed", "2147483648"], ("seed is '2147483648'", "2147483647")),
    (["--min-exposed", "-1"], ("min_exposed is '-1'", "from 1 to")),
    (["--duration-s", "0"], ("duration_s is '0'", "above 0 and up to 86400")),
    (["--duration-s", "nan"], ("duration_s is 'nan'", "a number above 0")),
    (["--duration-s", "inf"], ("duration_s is 'inf'", "a number above 0")),
    (["--duration-s", "1e400"], ("duration_s is '1e400'", "a number above 0")),
    (["--duration-s", "86401"], ("duration_s is '86401'", "86400")),
    (["--profile", "acks_al"], ("profile is 'acks_al'", "acks_0, acks_1", "did you mean acks_all?")),
    (["--profile", "acks-1"], ("profile is 'acks-1'", "did you mean acks_1?")),
    (["--profile", "zzz"], ("profile is 'zzz'", "`kdv list")),
    (["--profile", ""], ("profile is ''", "acks_0")),
    (["--application", "comit_after"], ("application is 'comit_after'", "at_handover", "did you mean commit_after?")),
    (["--application", ""], ("application is ''", "commit_first", "`kdv list applications`")),
    (["--application", "./commit_after"], ("application is no name", "/NAME.toml", "`kdv list applications`")),
    (["--application", "python3 consumer.py"], ("application is no name", "a command is never taken")),
    (["--fault", "kill_leder"], ("fault is 'kill_leder'", "did you mean kill_leader?")),
    (["--fault", "meteor"], ("fault is 'meteor'", "kill_leader")),
    (["--claim", "exactly-once"], ("claim is 'exactly-once'", "did you mean exactly_once?")),
    (["--pacing", "slow"], ("pacing is 'slow'", "spread, flat_out")),
    (["--kafka-version", "4.3.9"], ("kafka_version is '4.3.9'", "did you mean 4.3.1?")),
    (["--kafka-version", "../../x"], ("kafka_version is '../../x'", "4.3.1")),
    (["--fail-step", "setle"], ("fail_step is 'setle'", "did you mean settle?")),
]


@pytest.mark.parametrize(("options", "parts"), OPTIONS, ids=lambda value: " ".join(value)[:40])
def test_an_option_is_refused_with_field_value_allowed_and_remedy(
    capsys: pytest.CaptureFixture[str], options: list[str], parts: tuple[str, ...]
) -> None:
    refused(capsys, ["plan", *options], *parts)
    refused(capsys, ["run", "--direct", *options], *parts)


@pytest.mark.parametrize(
    "line", [["run", "--recrods", "5"], ["rnu"], [], ["report"], ["list", "rnus"], ["plan", "--records"]]
)
def test_a_mistyped_command_line_is_reported_in_one_line(capsys: pytest.CaptureFixture[str], line: list[str]) -> None:
    refused(capsys, line)


@pytest.mark.parametrize(
    ("params", "parts"),
    [
        ({"recrods": 5}, ("field is 'recrods'", "did you mean records?")),
        ({"KDV": 5}, ("field is 'KDV'", "profile, application, fault")),
        ({"records": True}, ("records is True", "a whole number")),
        ({"records": [1]}, ("records is [1]", "a whole number")),
        ({"records": math.nan}, ("records is nan", "a whole number")),
        ({"records": 1e20}, ("records is 1e+20", MOST)),
        ({"records": 20.5}, ("records is 20.5", "a whole number")),
        ({"duration_s": math.inf}, ("duration_s is inf", "a number")),
        ({"duration_s": False}, ("duration_s is False", "a number")),
        ({"profile": 7}, ("profile is 7", "acks_0")),
        ({"profile": {"acks": 1}}, ("profile is {'acks': 1}", "acks_0")),
        ({"claim": ""}, ("claim is ''", "contract")),
        ({"recovery_s": -1}, ("recovery_s is -1", "from 0 to 3600")),
        ({"deadline_s": 0}, ("deadline_s is 0", "above 0")),
        (
            {"scenario": "everyday.none", "topic_overrides": "min.insync.replicas=1"},
            ("topic_overrides is given", "everyday.none"),
        ),
        (
            {"scenario": "everyday.none", "application": "commit_after"},
            ("application is given", "which settles it", "one of the two"),
        ),
        ({"application": ["commit_after"]}, ("application is ['commit_after']", "store_after")),
        ({"seed": None, "rate": "1;rm"}, ("rate is '1;rm'", "a whole number")),
    ],
    ids=str,
)
def test_a_field_of_the_form_is_refused_the_same_way(params: dict[str, Any], parts: tuple[str, ...]) -> None:
    with pytest.raises(BadInput) as refusal:
        scenario_from_params(params, "r")
    for part in parts:
        assert part in str(refusal.value)


def test_a_field_that_is_not_given_takes_its_default_and_a_whole_float_is_a_whole_number() -> None:
    made = scenario_from_params({"records": 5000.0, "rate": None, "cycles": "2"}, "r")
    assert (made.subjects[0].records, made.load.rate, made.fault.cycles) == (5000, None, 2)


@pytest.mark.parametrize(
    ("fields", "least_s"), [({"records": 10**8}, 10_000), ({"records": 10_000, "payload_bytes": 10**6}, 1000)]
)
def test_a_large_load_has_the_time_that_it_needs(fields: dict[str, int], least_s: float) -> None:
    """A hundred million records take several minutes, even as fast as the client can."""
    assert scenario_from_params({**fields, "pacing": "flat_out", "fault": "none"}, "r").load.deadline_s >= least_s


@pytest.mark.parametrize("hours", [1, 24])
def test_a_long_run_has_a_deadline_within_what_is_allowed(hours: int) -> None:
    assert scenario_from_params({"duration_s": hours * 3600}, "r").load.deadline_s <= 86_400


@pytest.mark.parametrize(
    "run_id",
    ["../x", "a b", "x" * 300, "naïve", "a\nb", "", ".hidden", "-x", "a/b", "a\x00b", "data docs", "\u202eabc"],
    ids=repr,
)
def test_a_run_id_that_is_no_name_is_refused_with_one_that_is(capsys: pytest.CaptureFixture[str], run_id: str) -> None:
    parts = ("run_id is ", "1 to 120 of A-Z a-z 0-9", "e.g. --run-id ")
    refused(capsys, ["run", "--direct", f"--run-id={run_id}"], *parts)
    refused(capsys, ["run", f"--run-id={run_id}"], *parts)


def test_a_run_id_that_is_taken_is_refused(capsys: pytest.CaptureFixture[str], host: Path) -> None:
    report_material.held(host / "home" / "runs", "taken")
    refused(capsys, ["run", "--direct", "--run-id", "taken"], "run_id is 'taken'", "holds a run already")


@pytest.mark.parametrize("port", ["0", "70000", "http", "-1", "80.5", "", "８０８０"])
def test_a_port_that_is_none_is_refused_and_never_replaced(capsys: pytest.CaptureFixture[str], port: str) -> None:
    refused(capsys, ["up", f"--port={port}"], f"--port is '{port}'", "from 1 to 65535")
    refused(capsys, ["run", f"--port={port}"], f"--port is '{port}'", "from 1 to 65535")


VARIABLES: list[tuple[str, str, tuple[str, ...]]] = [
    ("KDV_HOME", "kdv", ("an absolute path", "e.g. KDV_HOME=/")),
    ("KDV_RUNS", "./runs", ("an absolute path",)),
    ("KDV_CACHE", "~/cache", ("an absolute path",)),
    ("KDV_LOCK", "lock", ("an absolute path",)),
    ("KDV_WORKSPACES", "ws", ("an absolute path",)),
    ("KDV_WORKSPACES", "/tmp/" + "w" * 90, ("at most 87 bytes", "a Unix socket")),
    ("KDV_KEEP", "yes", ("0 or 1", "e.g. KDV_KEEP=1")),
    ("KDV_KEPT", "-1", ("from 0 to 1000",)),
    ("KDV_KEPT", "all", ("from 0 to 1000", "e.g. 3")),
    ("KDV_PORT", "http", ("from 1 to 65535", "e.g. 8080")),
    ("KDV_PORT", "0", ("from 1 to 65535",)),
    ("KDV_PORT", "70000", ("from 1 to 65535",)),
    ("KDV_PORT", "²", ("from 1 to 65535",)),
    ("KDV_MAVEN_MIRROR", "repo.example.org/maven2", ("begins with http:// or https://", "repo1.maven.org")),
    ("KDV_MAVEN_MIRROR", "ftp://repo.example.org", ("begins with http:// or https://",)),
    ("KDV_MAVEN_MIRROR", "https://", ("names a host",)),
    ("KDV_MAVEN_MIRROR", "https://host:port/x", ("begins with http",)),
    ("KDV_MAVEN_MIRROR", "https://a b/x", ("begins with http",)),
]


@pytest.mark.parametrize(("name", "value", "parts"), VARIABLES, ids=lambda value: str(value)[:30])
def test_a_variable_that_holds_what_it_may_not_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str, parts: tuple[str, ...]
) -> None:
    monkeypatch.setenv(name, value)
    for line in (["list"], ["plan"], ["run", "--direct"], ["doctor"]):
        refused(capsys, line, f"{name} is ", value[:60], *parts)


def test_a_variable_that_nobody_reads_is_warned_about_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_RUN", "/x")
    assert cli.main(["list", "faults"]) == 0
    assert "kdv: warning: KDV_RUN is set, and has no effect; did you mean KDV_RUNS?" in capsys.readouterr().err


def test_what_runs_tests_sets_no_variable_that_the_program_would_warn_about() -> None:
    root = Path(cli.__file__).resolve().parents[3]
    files = [root / ".ci/run", *root.glob("tests/*.py"), *root.glob("tests/support/seeds.py")]
    found = {name for file in files for name in re.findall(r"\bKDV_[A-Z_]*[A-Z]\b", file.read_text())}
    assert {"KDV_TEST_UNTIL", "KDV_TEST_HISTORIES"} <= found
    assert not {name for name in found - {*variables.KNOWN} if not name.startswith("KDV_TEST_")}


def test_every_variable_that_is_read_is_known() -> None:
    from delivery_verifier.model.user_application import VARIABLES

    root = Path(cli.__file__).resolve().parents[3]

    def names(*patterns: str) -> set[str]:
        texts = [file.read_text() for pattern in patterns for file in root.glob(pattern)]
        return {name for text in texts for name in re.findall(r"\bKDV_[A-Z_]+\b", text) if not name.endswith("_")}

    code, pages = names("plugins/**/*.py", "spark_jobs/**/*.py", "dags/*.py"), names("docs/*.md")
    of_the_composition = names("docker-compose.yml", "docker/*.yml", "docker/*.py", "Makefile")
    assert code | (pages - of_the_composition) == {*variables.KNOWN, *VARIABLES}


def test_a_scenario_is_read_back_as_it_was_written() -> None:
    made = scenario_from_params({}, "r")
    assert loads(dumps(made)) == made


def test_a_port_that_is_taken_is_reported_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(capsys, ["up", "--port", str(port)], f"port {port} is taken", "--port or KDV_PORT", code=70)


@pytest.mark.parametrize("line", [["run", "--direct", "--run-id", "x"], ["run", "--run-id", "x"], ["up"]])
def test_a_home_that_cannot_be_written_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, host: Path, line: list[str]
) -> None:
    (host / "plain").write_text("x")
    monkeypatch.setenv("KDV_HOME", str(host / "plain"))
    refused(capsys, line, "KDV_HOME", str(host / "plain"), "a folder that can be written")


@pytest.mark.parametrize(
    "fields",
    [
        {"records": 1000},
        {"records": 1000, "cycles": 100},
        {"records": 1000, "min_exposed": 1000},
        {"records": 1000, "min_exposed": 1001, "rate": 500},
        {"records": 1000, "min_exposed": 1001, "pacing": "flat_out"},
        {"records": 1000, "min_exposed": 1001, "fault": "none"},
        {"scenario": "acks_1.frozen_followers"},
    ],
)
def test_a_load_that_can_show_something_is_taken(fields: dict[str, Any]) -> None:
    assert scenario_from_params(fields, "r").subjects[0].records > 0

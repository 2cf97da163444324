"""Bad input, at every entrance: one line that names field, value, what is allowed and a remedy; never a traceback."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import report_fixture

from delivery_verifier import cli, ledger
from delivery_verifier.commands.parsers import BAD_INPUT
from delivery_verifier.runs import IncompleteRun, RunDirectory
from delivery_verifier.scenario import BadInput, dumps, loads
from delivery_verifier.steps.plan import scenario_from_params
from spark_jobs.schemas import LOG, arrow, check_log

MOST = "100000000000"


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("KDV_") and not name.startswith("KDV_TEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KDV_WORKSPACES", "/tmp/kdv-t")
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], line: list[str], *parts: str, code: int = BAD_INPUT) -> None:
    """The command ends with `code`, says one line with all `parts`, and shows no traceback."""
    capsys.readouterr()
    try:
        ended: Any = cli.main(line)
    except SystemExit as end:
        ended = end.code
    out, err = capsys.readouterr()
    assert ended == code, err
    assert out == ""
    assert "Traceback" not in err
    told = [one for one in err.splitlines() if one.startswith("kdv: ") and "warning" not in one]
    assert len(told) == 1, err
    for part in parts:
        assert part in told[0], (part, told[0])


OPTIONS: list[tuple[list[str], tuple[str, ...]]] = [
    (["--records", "abc"], ("records is 'abc'", f"a whole number from 0 to {MOST}", "e.g. 20000")),
    (["--records", "-1"], ("records is '-1'", "from 0 to")),
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
    (["--min-insync-replicas", "3", "--replication-factor", "2"], ("min.insync.replicas", "is 3", "from 1 to the replication factor, 2", "--min-insync-replicas")),
    (["--replication-factor", "1", "--min-insync-replicas", "1"], ("min.insync.replicas of arm", "is 2", "replication factor, 1", "raise --replication-factor")),
    (["--payload-bytes", "69"], ("payload_bytes is '69'", "from 70 to 1000000")),
    (["--payload-bytes", "2000000"], ("payload_bytes is '2000000'", "from 70 to 1000000")),
    (["--cycles", "0"], ("cycles is '0'", "from 1 to 1000")),
    (["--seed", "-3"], ("seed is '-3'", "from 0 to 2147483647")),
    (["--seed", "2147483648"], ("seed is '2147483648'", "2147483647")),
    (["--min-exposed", "-1"], ("min_exposed is '-1'", "from 0 to")),
    (["--duration-s", "0"], ("duration_s is '0'", "above 0 and up to 86400")),
    (["--duration-s", "nan"], ("duration_s is 'nan'", "a number above 0")),
    (["--duration-s", "inf"], ("duration_s is 'inf'", "a number above 0")),
    (["--duration-s", "1e400"], ("duration_s is '1e400'", "a number above 0")),
    (["--duration-s", "86401"], ("duration_s is '86401'", "86400")),
    (["--profile", "acks_al"], ("profile is 'acks_al'", "acks_0, acks_1", "did you mean acks_all?")),
    (["--profile", "acks-1"], ("profile is 'acks-1'", "did you mean acks_1?")),
    (["--profile", "zzz"], ("profile is 'zzz'", "`kdv list")),
    (["--profile", ""], ("profile is ''", "acks_0")),
    (["--fault", "kill_leder"], ("fault is 'kill_leder'", "did you mean kill_leader?")),
    (["--fault", "meteor"], ("fault is 'meteor'", "kill_leader")),
    (["--claim", "exactly-once"], ("claim is 'exactly-once'", "did you mean exactly_once?")),
    (["--pacing", "slow"], ("pacing is 'slow'", "spread, flat_out")),
    (["--kafka-version", "4.3.9"], ("kafka_version is '4.3.9'", "did you mean 4.3.1?")),
    (["--kafka-version", "../../x"], ("kafka_version is '../../x'", "4.3.1")),
    (["--fail-step", "setle"], ("fail_step is 'setle'", "did you mean settle?")),
]  # fmt: skip


@pytest.mark.parametrize(("options", "parts"), OPTIONS, ids=lambda value: " ".join(value)[:40])
def test_an_option_is_refused_with_field_value_allowed_and_remedy(
    capsys: pytest.CaptureFixture[str], options: list[str], parts: tuple[str, ...]
) -> None:
    refused(capsys, ["plan", *options], *parts)
    refused(capsys, ["run", "--direct", *options], *parts)


@pytest.mark.parametrize("line", [["run", "--recrods", "5"], ["rnu"], [], ["report"], ["list", "rnus"], ["plan", "--records"]])
def test_a_mistyped_command_line_is_told_in_one_line(capsys: pytest.CaptureFixture[str], line: list[str]) -> None:
    refused(capsys, line)


@pytest.mark.parametrize(
    ("params", "parts"),
    [
        ({"recrods": 5}, ("field is 'recrods'", "did you mean records?")),
        ({"KDV": 5}, ("field is 'KDV'", "profile, fault")),
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
        ({"scenario": "everyday.none", "topic_overrides": "min.insync.replicas=1"}, ("topic_overrides is given", "everyday.none")),
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


@pytest.mark.parametrize("hours", [1, 24])
def test_a_long_run_has_a_deadline_within_what_is_allowed(hours: int) -> None:
    assert scenario_from_params({"duration_s": hours * 3600}, "r").load.deadline_s <= 86_400


@pytest.mark.parametrize(
    "run_id", ["../x", "a b", "x" * 300, "naïve", "a\nb", "", ".hidden", "-x", "a/b", "a\x00b", "data docs", "\u202eabc"], ids=repr
)
def test_a_run_id_that_is_no_name_is_refused_with_one_that_is(capsys: pytest.CaptureFixture[str], run_id: str) -> None:
    parts = ("run_id is ", "1 to 120 of A-Z a-z 0-9", "e.g. --run-id ")
    refused(capsys, ["run", "--direct", f"--run-id={run_id}"], *parts)
    refused(capsys, ["run", f"--run-id={run_id}"], *parts)


def test_a_run_id_that_is_taken_is_refused(capsys: pytest.CaptureFixture[str], host: Path) -> None:
    report_fixture.held(host / "home" / "runs", "taken")
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
    ("KDV_WORKSPACES", "/tmp/" + "w" * 90, ("at most 86 bytes", "a Unix socket")),
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
    assert "kdv: warning: KDV_RUN is set, and nobody reads it; did you mean KDV_RUNS?" in capsys.readouterr().err


def test_every_variable_that_is_read_is_known() -> None:
    import re

    from delivery_verifier import variables

    root = Path(cli.__file__).resolve().parents[2]
    sources = [*root.glob("plugins/**/*.py"), *root.glob("spark_jobs/*.py"), *root.glob("dags/*.py"), *root.glob("docs/*.md")]
    read = {name for file in sources for name in re.findall(r"\bKDV_[A-Z_]+\b", file.read_text()) if not name.endswith("_")}
    assert read == set(variables.KNOWN)


# ---- stored runs ----


def judged(folder: Path, run_id: str = "judged") -> RunDirectory:
    path, verdict = report_fixture.held(folder, run_id)
    run = RunDirectory(path)
    with run.writing("conclude") as output:
        output.write_json("verdict.json", verdict)
    return run


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _reseal_verdict(run: RunDirectory, change: Callable[[dict[str, Any]], object]) -> None:
    text = msgspec.json.decode((run.path / "verdict.json").read_bytes())
    change(text)
    with run.writing("conclude") as output:
        output.write_json("verdict.json", text)


def _unsealed(run: RunDirectory) -> None:
    manifest = msgspec.structs.replace(run.manifest("conclude"), files={})
    (run.path / "conclude.json").write_bytes(dumps(manifest))


def _outside(run: RunDirectory) -> None:
    manifest = msgspec.structs.replace(run.manifest("conclude"), files={"../../secret": "0"})
    (run.path / "conclude.json").write_bytes(dumps(manifest))


def _edit(run: RunDirectory, name: str, old: str, new: str) -> None:
    file = run.path / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))


DAMAGE: dict[str, tuple[Callable[[RunDirectory], object], tuple[str, ...]]] = {
    "no manifest": (lambda run: (run.path / "conclude.json").unlink(), ("step conclude did not finish", "conclude.json is missing")),
    "an altered verdict": (lambda run: _edit(run, "verdict.json", "HELD", "HELD "), ("verdict.json is not as step conclude wrote it", "SHA-256")),
    "no verdict": (lambda run: (run.path / "verdict.json").unlink(), ("verdict.json", "is missing")),
    "a verdict that was never sealed": (_unsealed, ("verdict.json is not among the files",)),
    "a manifest that names a file outside": (_outside, ("'../../secret' is outside the run directory",)),
    "a manifest that is cut": (lambda run: _cut(run.path / "conclude.json"), ("conclude.json is damaged",)),
    "a manifest that is a folder": (lambda run: ((run.path / "conclude.json").unlink(), (run.path / "conclude.json").mkdir()), ("conclude.json is missing",)),
    "a verdict with an unknown field": (lambda run: _reseal_verdict(run, lambda text: text.update(extra=1)), ("verdict.json is damaged", "extra", "kdv reconcile")),
    "a verdict with an unknown word": (lambda run: _reseal_verdict(run, lambda text: text.update(verdict="FINE")), ("verdict.json is damaged", "FINE")),
    "a verdict without its arms": (lambda run: _reseal_verdict(run, lambda text: text.pop("arms")), ("verdict.json is damaged", "arms")),
    "a scenario that is cut": (lambda run: _cut(run.path / "scenario.json"), ("scenario.json is not as `plan` wrote it",)),
    "a scenario with an unknown field": (lambda run: _edit(run, "scenario.json", '"seed"', '"sead"'), ("scenario.json", "sead")),
    "a scenario with a NaN": (lambda run: _edit(run, "scenario.json", '"recovery_s": 2.0', '"recovery_s": NaN'), ("scenario.json", "not as `plan` wrote it")),
    "a scenario with a huge number": (lambda run: _edit(run, "scenario.json", '"records": 40000', '"records": 1e999'), ("scenario.json",)),
    "a scenario with an arm twice": (lambda run: _edit(run, "scenario.json", '"name": "control-acks_0"', '"name": "safe"'), ("names and ordinals must be unique",)),
    "no scenario": (lambda run: (run.path / "scenario.json").unlink(), ("is no", )),
    "an empty scenario": (lambda run: (run.path / "scenario.json").write_text(""), ("scenario.json",)),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_gives_no_verdict_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], host: Path, damage: str
) -> None:
    run = judged(host)
    change, parts = DAMAGE[damage]
    change(run)
    parts = parts if parts != ("is no",) else ("run is ", "a run directory")
    refused(capsys, ["report", str(run.path)], *parts)
    refused(capsys, ["reconcile", str(run.path)])


def _file(folder: Path) -> Path:
    (folder / "plain").write_text("x")
    return folder / "plain"


def _loop(folder: Path) -> Path:
    (folder / "loop").symlink_to(folder / "loop")
    return folder / "loop"


def _empty(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


@pytest.mark.parametrize(
    "make",
    [_file, _loop, _empty, lambda folder: "x" * 300, lambda folder: "", lambda folder: "../..", lambda folder: "no\x00name",
     lambda folder: "a\nb", lambda folder: "../judged", lambda folder: "/proc/self/mem"],
    ids=["a file", "a loop", "an empty folder", "300 characters", "nothing", "a parent", "a NUL", "two lines", "a path as a name", "a device"],
)  # fmt: skip
def test_what_is_no_run_directory_is_refused(
    capsys: pytest.CaptureFixture[str], host: Path, make: Callable[[Path], object]
) -> None:
    judged(host / "home" / "runs")
    given = str(make(host))
    for command in ("report", "reconcile"):
        refused(capsys, [command, given], "run is ", "a run directory, or the name of a run in")


def test_a_name_that_is_nearly_one_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str], host: Path) -> None:
    judged(host / "home" / "runs", "nightly-7")
    refused(capsys, ["report", "nightly-8"], "run is 'nightly-8'", "did you mean nightly-7?")
    refused(capsys, ["report", str(host / "home/runs/nightly-7/verdict.json")], "give its folder")


def test_a_sound_run_is_reported_by_name_and_by_path(capsys: pytest.CaptureFixture[str], host: Path) -> None:
    run = judged(host / "home" / "runs")
    assert cli.main(["report", "judged"]) == cli.main(["report", str(run.path)]) == 0
    assert "HELD" in capsys.readouterr().out


def test_a_list_of_runs_survives_damaged_ones(capsys: pytest.CaptureFixture[str], host: Path) -> None:
    for damage, (change, _) in DAMAGE.items():
        change(judged(host / "home" / "runs", damage.replace(" ", "-")))
    assert cli.main(["list", "runs"]) == 0
    assert "no verdict" in capsys.readouterr().out


def test_a_file_that_no_step_wrote_is_not_read_along(host: Path) -> None:
    run = judged(host)
    shutil.copyfile(run.path / "books/laws.parquet", run.path / "books/more.parquet")
    with pytest.raises(IncompleteRun, match=r"books/more.parquet was written by no step"):
        run.require("reconcile")


LEDGER_ROW: dict[str, Any] = {"arm": "a", "producer": 0, "session": 0, "sequence": 0, "attempt": 0, "partition": 0}


def _parquet(file: Path, table: pa.Table) -> Path:
    pq.write_table(table, file)
    return file


def test_a_parquet_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    whole = _parquet(tmp_path / "whole.parquet", ledger.SCHEMA.empty_table())
    ledger.check_schema(whole)
    cases: list[tuple[Path, str]] = [
        (_parquet(tmp_path / "a", ledger.SCHEMA.empty_table().drop_columns(["outcome"])), "outcome: missing, expected string"),
        (_parquet(tmp_path / "b", ledger.SCHEMA.empty_table().append_column("x", pa.array([], pa.int8()))), "x: unknown column"),
        (_parquet(tmp_path / "c", pa.table({"arm": pa.array([], pa.int8())})), "arm: int8, expected string"),
        (tmp_path / "missing", "cannot be read as Parquet"),
    ]
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("arm,producer\n")
    (tmp_path / "cut").write_bytes(whole.read_bytes()[:-20])
    cases += [(tmp_path / name, "cannot be read as Parquet") for name in ("empty", "text", "cut")]
    for file, told in cases:
        with pytest.raises(BadInput, match=told):
            ledger.check_schema(file)


def test_a_parquet_file_that_is_no_log_is_refused_where_spark_would_read_nulls(tmp_path: Path) -> None:
    table = arrow(LOG).empty_table()
    check_log(_parquet(tmp_path / "whole", table))
    with pytest.raises(BadInput, match="crc_ok: missing, expected bool"):
        check_log(_parquet(tmp_path / "a", table.drop_columns(["crc_ok"])))
    with pytest.raises(BadInput, match="offset: string, expected int64"):
        check_log(_parquet(tmp_path / "b", table.set_column(2, "offset", pa.array([], pa.string()))))
    with pytest.raises(BadInput, match="mine: unknown column"):
        check_log(_parquet(tmp_path / "c", table.append_column("mine", pa.array([], pa.int8()))))


def test_a_run_directory_from_elsewhere_has_no_folder_removed_that_it_names(host: Path) -> None:
    from delivery_verifier.steps.conclude import _clear_workspace

    victim = host / "victim"
    victim.mkdir()
    (victim / "keeper.json").write_text("{}")
    run = judged(host)
    with run.writing("start_cluster") as output:
        output.notes["workspace"] = str(victim)
    _clear_workspace(run, keep=False)
    assert (victim / "keeper.json").exists()


def test_a_scenario_is_read_back_as_it_was_written() -> None:
    made = scenario_from_params({}, "r")
    assert loads(dumps(made)) == made


def test_a_port_that_is_taken_is_told_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(capsys, ["up", "--port", str(port)], f"port {port} is taken", "--port or KDV_PORT", code=cli.FAILED)


@pytest.mark.parametrize("line", [["run", "--direct", "--run-id", "x"], ["run", "--run-id", "x"], ["up"]])
def test_a_home_that_cannot_be_written_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, host: Path, line: list[str]
) -> None:
    (host / "plain").write_text("x")
    monkeypatch.setenv("KDV_HOME", str(host / "plain"))
    refused(capsys, line, "KDV_HOME", str(host / "plain"), "a folder that can be written")

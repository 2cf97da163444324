"""Tests of the bundle, a zip file with the evidence of a run. It contains everything that a ticket needs, from known
files only, and no secret of this host."""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import report_material
from support.report_material import sealed

from delivery_verifier.cluster import workspaces
from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line.parsers import BAD_INPUT
from delivery_verifier.host.redaction import REDACTED, redact
from delivery_verifier.local_airflow import settings
from delivery_verifier.maintenance import bundle, doctor
from delivery_verifier.maintenance.redaction import known_secrets
from delivery_verifier.planning.preflight import Check
from delivery_verifier.run_directory.run_directory import RunDirectory

PLANTED = "hunter2-planted-Zq9"


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KDV_WORKSPACES", str(tmp_path / "ws"))
    monkeypatch.delenv("KDV_RUNS", raising=False)
    monkeypatch.setattr(doctor, "examine", lambda: [Check(name="disk", ok=True, found="9 GB free")])
    return tmp_path


def contents(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def with_logs(run: RunDirectory, text: str) -> None:
    """Writes `text` into the logs of the local Airflow and of the run's cluster."""
    of_run = settings.airflow_home() / "logs" / "dag_id=verify_delivery" / f"run_id={run.path.name}"
    other = of_run.with_name("run_id=another")
    workspace = workspaces.folder() / run.read_scenario().run_token
    for file in (
        of_run / "task_id=settle" / "attempt=1.log",
        other / "task_id=plan" / "attempt=1.log",
        workspace / "logs" / "1.log",
        workspace / "agent.log",
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_it_holds_the_evidence_of_a_judged_run_but_neither_ledger_nor_log(host: Path) -> None:
    run, _ = sealed(host / "home" / "runs")
    for folder in ("ledger", "log"):
        (run.path / folder).mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": [1]}), run.path / folder / "part.parquet")
    with_logs(run, "all is well")
    assert cli.main(["report", "judged", "--bundle", str(host / "b.zip")]) == 0
    found = contents(host / "b.zip")
    wanted = {
        "verdict.json",
        "report.html",
        "scenario.json",
        "injections.json",
        "observations.json",
        "offsets.json",
        "plan.json",
        "validation.json",
        "conclude.json",
        "counts/invariants.parquet",
        "anomalies/part-0.parquet",
        "timeline/load.parquet",
        "doctor.json",
        "about.json",
        "logs/airflow/task_id=settle/attempt=1.log",
        "logs/cluster/logs/1.log",
        "logs/cluster/agent.log",
    }
    assert wanted <= set(found)
    assert not any("another" in name or name.startswith(("ledger", "log/")) for name in found)
    assert "4.3.1" in found["scenario.json"].decode()
    assert json.loads(found["about.json"])["left_out"]["ledger/"] == "only with --bundle-full"
    assert found["verdict.json"] == (run.path / "verdict.json").read_bytes()
    assert stat.S_IMODE((host / "b.zip").stat().st_mode) == 0o600
    assert cli.main(["report", "judged", "--bundle", str(host / "b.zip"), "--bundle-full"]) == 0
    assert {"ledger/part.parquet", "log/part.parquet"} <= set(contents(host / "b.zip"))


def test_it_is_made_of_a_run_without_a_verdict_too(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = report_material.failed_early(host / "home" / "runs")
    with_logs(RunDirectory(path), "RuntimeError: the broker ended")
    assert cli.main(["report", path.name, "--bundle", str(host / "b.zip")]) == BAD_INPUT
    assert "step conclude did not finish" in capsys.readouterr().err
    found = contents(host / "b.zip")
    assert b"the broker ended" in found["logs/airflow/task_id=settle/attempt=1.log"]
    assert json.loads(found["about.json"])["left_out"]["verdict.json"] == "not there"


def test_it_is_made_of_a_run_whose_scenario_is_damaged(host: Path) -> None:
    run, _ = sealed(host / "home" / "runs")
    (run.path / "scenario.json").write_text('{"sasl.password": "x')
    assert cli.main(["report", "judged", "--bundle", str(host / "b.zip")]) == BAD_INPUT
    assert "verdict.json" in contents(host / "b.zip")


SECRETS: dict[str, Callable[[pytest.MonkeyPatch, Path], str]] = {}


def _secret(
    name: str,
) -> Callable[[Callable[[pytest.MonkeyPatch, Path], str]], Callable[[pytest.MonkeyPatch, Path], str]]:
    def register(plant: Callable[[pytest.MonkeyPatch, Path], str]) -> Callable[[pytest.MonkeyPatch, Path], str]:
        SECRETS[name] = plant
        return plant

    return register


@_secret("the password of a user of Airflow")
def _(patch: pytest.MonkeyPatch, host: Path) -> str:
    return settings.ensure_passwords()["admin"]


@_secret("the JWT secret")
def _(patch: pytest.MonkeyPatch, host: Path) -> str:
    return settings._secrets()["AIRFLOW__API_AUTH__JWT_SECRET"]


@_secret("the Fernet key")
def _(patch: pytest.MonkeyPatch, host: Path) -> str:
    return settings._secrets()["AIRFLOW__CORE__FERNET_KEY"]


@_secret("a variable whose name says secret")
def _(patch: pytest.MonkeyPatch, host: Path) -> str:
    patch.setenv("MY_SERVICE_TOKEN", PLANTED)
    return PLANTED


@_secret("the password of a connection as a URI")
def _(patch: pytest.MonkeyPatch, host: Path) -> str:
    patch.setenv("AIRFLOW_CONN_KAFKA", "kafka://user:hunter2-planted%2FZq9@host:9092")
    return "hunter2-planted/Zq9"


@_secret("the password of a connection as JSON")
def _(patch: pytest.MonkeyPatch, host: Path) -> str:
    patch.setenv("AIRFLOW_CONN_KAFKA", json.dumps({"conn_type": "kafka", "extra": {"sasl.password": PLANTED}}))
    return PLANTED


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_this_host_knows_is_nowhere_in_it(host: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    run, verdict = sealed(host / "home" / "runs")
    secret = SECRETS[name](monkeypatch, host)
    with_logs(run, f"connecting as admin with {secret} now")
    with run.writing("conclude") as output:
        output.write_json("verdict.json", verdict)
        (output.staging / "report.html").write_text(f"<p>{secret}</p>")
    case = pa.table({"arm": ["a"], "offsets": [[1, 2]], "error": [f"refused: {secret}"]})
    pq.write_table(case, run.path / "anomalies" / "part-0.parquet")
    pq.write_table(pa.table({"errors": [["none", secret]]}), run.path / "anomalies" / "part-1.parquet")
    about = bundle.write(run.path, host / "b.zip", full=True)
    found = contents(host / "b.zip")
    assert not [member for member, content in found.items() if secret.encode() in content]
    assert REDACTED.encode() in found["logs/cluster/agent.log"] and REDACTED.encode() in found["report.html"]
    assert {about.left_out[f"anomalies/part-{part}.parquet"] for part in (0, 1)} == {"it holds a secret"}
    assert "logs/cluster/agent.log" in about.redacted


@pytest.mark.parametrize(
    "line",
    [
        "sasl.password={}",
        '"sasl.password": "{}"',
        "ssl.key.password : {}",
        '{{"extra": "{{\\"password\\": \\"{}\\"}}"}}',
        "Authorization: Bearer {}abcdefgh",
        "kafka://user:{}@host:9092/x",
        "--api-key={}",
        "API_TOKEN='{}'",
        'sasl.jaas.config=org.apache.kafka.PlainLoginModule required username="u" password="{}";',
        "AWS_SECRET_ACCESS_KEY={}",
        "spark.hadoop.fs.s3a.secret.key={}",
        "client_secret_value={}",
        "basic.auth.user.info=u:{}",
        "ssl.keystore.key={}",
        "kdv --password {}",
        "http://u:p@{}@host",
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n{}",
    ],
)
def test_what_looks_like_a_secret_is_taken_out_though_nobody_knows_it(line: str) -> None:
    told, taken = redact(line.format(PLANTED), [])
    assert PLANTED not in told and taken >= 1, told


def test_what_is_no_secret_stays(host: Path) -> None:
    run, _ = sealed(host / "home" / "runs")
    for text in (
        (run.path / "scenario.json").read_text(),
        "run_token: abcdefgh",
        '"token": null',
        "password file: mode 600"[:8],
    ):
        assert redact(text, []) == (text, 0)


def test_short_values_are_not_taken_for_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "a")
    monkeypatch.setenv("SECRET_FILE", "/etc/passwd")
    assert not {"a", "/etc/passwd"} & set(known_secrets())


def test_only_files_of_the_run_itself_get_in(host: Path) -> None:
    run, _ = sealed(host / "home" / "runs")
    (host / "outside").write_text("outside the run")
    (run.path / "report.html").unlink()
    (run.path / "report.html").symlink_to(host / "outside")
    (run.path / "counts" / "x.parquet").symlink_to(host / "outside")
    (run.path / ".env").write_text("x")
    (run.path / "notes.txt").write_text("x")
    bundle.write(run.path, host / "b.zip", full=True)
    found = contents(host / "b.zip")
    assert not {"report.html", "counts/x.parquet", ".env", "notes.txt"} & set(found)
    assert all(not Path(name).is_absolute() and ".." not in Path(name).parts for name in found)


def test_of_a_long_log_the_end_is_taken(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "LOG_BYTES", 100)
    run, _ = sealed(host / "home" / "runs")
    with_logs(run, "early " * 1000 + "the end")
    bundle.write(run.path, host / "b.zip")
    told = contents(host / "b.zip")["logs/cluster/agent.log"].decode()
    assert told.startswith("(the last 100 of 6007 bytes)") and told.endswith("the end")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--bundle", "/nowhere/b.zip"], "--bundle is '/nowhere/b.zip'"),
        (["--bundle", "{run}/b.zip"], "outside the run directory"),
        (["--bundle-full"], "add --bundle FILE.zip"),
    ],
)
def test_a_bundle_that_cannot_be_is_refused(
    host: Path, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    run, _ = sealed(host / "home" / "runs")
    assert cli.main(["report", "judged", *(option.format(run=run.path) for option in options)]) == BAD_INPUT
    assert told in capsys.readouterr().err
    assert not list(host.rglob("*.zip"))


def test_the_files_of_the_local_airflow_are_for_their_user_alone(host: Path) -> None:
    settings.ensure_passwords()
    settings._secrets()
    private: list[Any] = [settings.passwords_file(), *(host / "home/.kdv/secrets").iterdir()]
    assert len(private) == 4
    assert {stat.S_IMODE(file.stat().st_mode) for file in private} == {0o600}

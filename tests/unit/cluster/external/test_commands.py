"""The operator's own commands on this host: who may write their file, what they get, and what is kept of their
output."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path

import pytest

from delivery_verifier.cluster.external import commands
from delivery_verifier.cluster.external.commands import Ordered
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput

SECRET = "hush-hush-7"
VALUES = {"broker": "11", "host": "b11.example", "links": "controller,replication"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the operator's commands, without any connection of his."""
    folder = tmp_path / "commands"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("KDV_COMMANDS", str(folder))
    monkeypatch.setenv("KDV_CONNECTIONS", str(tmp_path / "connections"))
    return folder


def written(folder: Path, program: str, *more: str, head: str = "", name: str = "mine") -> Path:
    """A file whose kill runs `program` in Python, with the id of the broker and `more` as its words."""
    (folder / "program.py").write_text(program)
    words = ", ".join(f"'{word}'" for word in (sys.executable, "{home}/program.py", "{broker}", *more))
    file, start = folder / f"{name}.toml", "[actions.start]\nby_itself_s = 60\n"
    file.write_text(f"{head}\n[actions.kill]\ncommand = [{words}]\ndeadline_s = 60\n{start}")
    file.chmod(0o600)
    return file


def ordered(*secrets: str, values: dict[str, str] = VALUES) -> Ordered:
    return commands.read("mine").run("kill", values, secrets, lambda pid: None)


def test_a_command_is_run_with_the_broker_and_says_how_it_ended(folder: Path) -> None:
    written(folder, "import sys; print(sys.argv[1:])", "{host}", "{home}")
    made = ordered()
    assert (made.exit_code, made.problem) == (0, "")
    assert made.output == f"['11', 'b11.example', '{folder}']\n" and made.words[-2:] == ["b11.example", str(folder)]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("raise SystemExit(3)", "it ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import time; time.sleep(600)", "it had not ended after 1 s, and was ended"),
    ],
)
def test_one_that_fails_or_hangs_has_a_problem(folder: Path, program: str, problem: str) -> None:
    file = written(folder, program)
    file.write_text(file.read_text().replace("deadline_s = 60", "deadline_s = 1"))
    assert problem in ordered().problem


@pytest.mark.parametrize(
    "printed", [SECRET, f"password={SECRET};", base64.b64encode(SECRET.encode()).decode(), "a%2Fb%3Dc-secret"]
)
def test_a_secret_that_it_prints_is_not_kept_and_makes_it_fail(folder: Path, printed: str) -> None:
    written(folder, f"print('it is {printed} indeed')")
    made = ordered(SECRET, "a/b=c-secret")
    assert printed not in str(made) and "it printed a secret" in made.problem


def test_a_secret_is_found_at_the_end_of_an_endless_output_and_half_of_one_is_not_kept(folder: Path) -> None:
    written(folder, f"print('x' * 100000 + '{SECRET}' + 'y' * 9, end='')")
    assert SECRET not in ordered(SECRET).output
    half = SECRET[:7]
    written(folder, f"print('z' + '{half}', end='')")
    assert half not in ordered(SECRET).output
    assert len(ordered(SECRET).output) <= commands.SHOWN


def test_what_looks_like_a_secret_of_somebody_else_is_not_kept_either(folder: Path) -> None:
    written(folder, "print('token: abcdefgh123')")
    assert "abcdefgh123" not in ordered().output


def test_it_gets_few_variables_and_those_that_its_file_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_GATEWAY_TOKEN", "ours")
    monkeypatch.setenv("OF_THE_OPERATOR", "mine")
    monkeypatch.setenv("MY_TOKEN", "sesame-sesame")
    program = "import os; print(sorted(os.environ), 'OF_THE_OPERATOR' in os.environ, os.environ['MY_TOKEN'])"
    written(folder, program, head='environment = ["OF_THE_OPERATOR", "MY_TOKEN"]')
    made = ordered()
    assert "KDV_GATEWAY_TOKEN" not in made.output and " True " in made.output
    assert "sesame" not in made.output and "it printed a secret" in made.problem
    monkeypatch.delenv("OF_THE_OPERATOR")
    with pytest.raises(BadInput, match="names OF_THE_OPERATOR, which is not set here"):
        commands.read("mine")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSHPASS", "hunter22"),
        ("GITHUB_PAT", "ghx_1234567890abcdef"),
        ("ACCESS_KEY", "AKsecretvalue99"),
        ("K8S_TOKEN", "e" * 900),
        ("PASS_FILES", "/no/such/path:/another"),
    ],
)
def test_what_the_file_passes_on_is_secret_whatever_its_name_and_its_length(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    written(folder, f"import os; print('it is', os.environ['{name}'])", head=f'environment = ["{name}"]')
    made = ordered()
    assert value not in str(made) and value[:20] not in made.output and "it printed a secret" in made.problem


@pytest.mark.parametrize("length", [1, 2000])
def test_a_value_of_another_name_is_not_kept_and_may_be_printed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setenv("AWS_REGION", "hush-east-1" * length)
    written(folder, "import os; print('in', os.environ['AWS_REGION'])", head='environment = ["AWS_REGION"]')
    made = ordered()
    assert "hush" not in made.output and not made.problem


def test_a_path_that_exists_is_no_secret_and_a_secret_that_is_too_short_to_be_found_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = f"{folder}:{sys.executable}"
    monkeypatch.setenv("KUBECONFIG", paths)
    written(folder, "import os; print(os.environ['KUBECONFIG'])", head='environment = ["KUBECONFIG"]')
    assert paths in ordered().output and not ordered().problem
    monkeypatch.setenv("DB_PASSWORD", "abc12")
    written(folder, "", head='environment = ["DB_PASSWORD"]')
    with pytest.raises(BadInput, match="names DB_PASSWORD, which holds a secret of fewer than 6 characters") as raised:
        commands.read("mine")
    assert "abc12" not in str(raised.value)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(folder: Path, mode: int) -> None:
    written(folder, "").chmod(mode)
    with pytest.raises(BadInput, match=rf"mode {mode:04o}, so others may write it.*chmod go-w"):
        commands.read("mine")


def test_a_folder_that_others_may_write_is_refused_unless_only_owners_may_replace_files(folder: Path) -> None:
    written(folder, "")
    folder.chmod(0o777)
    with pytest.raises(BadInput, match="mode 0777, so others may write it"):
        commands.read("mine")
    folder.chmod(0o1777)
    assert commands.read("mine").described.name == "mine"


def test_a_program_that_is_missing_is_refused_before_anything_runs(folder: Path) -> None:
    file = written(folder, "")
    file.write_text(file.read_text().replace(sys.executable, "no-such-kubectl"))
    with pytest.raises(BadInput, match=r"actions\.kill has the program 'no-such-kubectl', which this user"):
        commands.read("mine")


def test_a_program_that_others_may_write_is_refused(folder: Path) -> None:
    file, script = written(folder, ""), folder / "kubectl"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o777)
    file.write_text(file.read_text().replace(sys.executable, "{home}/kubectl"))
    with pytest.raises(BadInput, match="kubectl has mode 0777, so others may write it"):
        commands.read("mine")


def with_program(folder: Path, program: str) -> None:
    file = written(folder, "")
    file.write_text(file.read_text().replace(sys.executable, program))


def open_folder(folder: Path) -> Path:
    """A folder in which others may replace what they like."""
    other = folder / "open"
    other.mkdir()
    other.chmod(0o777)
    return other


@pytest.mark.parametrize("how", ["direct", "linked", "below"])
def test_a_program_that_others_may_replace_is_refused(folder: Path, how: str) -> None:
    other, script = open_folder(folder), folder / "kubectl"
    if how == "below":
        other = other / "own"
        other.mkdir(mode=0o700)
    program = other / "kubectl"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    script.symlink_to(program)
    with_program(folder, str(script if how == "linked" else program))
    with pytest.raises(BadInput, match="open has mode 0777, so others may write it"):
        commands.read("mine")


def test_a_program_of_another_user_is_refused(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    program = folder / "kubectl"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    os.chown(program, 12345, 12345)
    with_program(folder, "{home}/kubectl")
    with pytest.raises(BadInput, match="kubectl belongs to another user"):
        commands.read("mine")


def test_a_file_that_is_a_link_into_a_folder_of_others_is_refused(folder: Path) -> None:
    file = written(folder, "")
    file.rename(open_folder(folder) / "mine.toml")
    file.symlink_to(folder / "open" / "mine.toml")
    with pytest.raises(BadInput, match="open has mode 0777, so others may write it"):
        commands.read("mine")


@pytest.mark.parametrize("word", ["{home}/sub/p.sh", "--file={home}/sub/p.sh", "{home}/sub/{broker}.sh", "absolute"])
def test_a_script_that_a_command_names_must_be_the_operators_own(folder: Path, word: str) -> None:
    script = folder / "sub" / ("11.sh" if "{broker}" in word else "p.sh")
    script.parent.mkdir(mode=0o700)
    script.write_text("exit 0\n")
    written(folder, "", str(script) if word == "absolute" else word)
    commands.read("mine")
    script.chmod(0o666)
    with pytest.raises(BadInput, match=f"{script.name} has mode 0666, so others may write it"):
        commands.read("mine")


@pytest.mark.parametrize("word", ["{home}/my script.sh", "{home}/{broker}.sh", 'sh -c "{home}/p.sh {broker}"'])
def test_a_script_below_the_home_that_changes_is_another_file(folder: Path, word: str) -> None:
    for name in ("my script.sh", "11.sh", "p.sh"):
        (folder / name).write_text("exit 0\n")
    written(folder, "", word)
    described = commands.read("mine").described
    assert commands.of_run(described).described == described
    for name in ("my script.sh", "11.sh", "p.sh"):
        (folder / name).write_text("exit 1\n")
    with pytest.raises(StepFailed, match="or a file that it names, has changed"):
        commands.of_run(described)
    with pytest.raises(BadInput, match=r"is another file now .*name it mine alone"):
        commands.read(described.reference)


@pytest.mark.parametrize("reference", ["kubectl delete pod", "../mine", "/etc/mine", "mine;id", "mine@zz"])
def test_a_command_or_a_path_is_no_name(folder: Path, reference: str) -> None:
    written(folder, "")
    with pytest.raises(BadInput, match="commands are never typed here"):
        commands.read(reference)


def test_a_name_that_nobody_has_written_is_refused_with_those_there_are(folder: Path) -> None:
    written(folder, "")
    with pytest.raises(BadInput, match="allowed: mine; did you mean mine"):
        commands.read("minee")


def test_a_repetition_with_another_file_is_refused_and_a_file_that_changes_in_a_run_ends_it(folder: Path) -> None:
    file = written(folder, "")
    described = commands.read("mine").described
    assert commands.read(described.reference).described == described == commands.of_run(described).described
    file.write_text(file.read_text() + "\n# changed\n")
    with pytest.raises(BadInput, match=r"is another file now .*name it mine alone"):
        commands.read(described.reference)
    with pytest.raises(StepFailed, match="has changed since the run was planned"):
        commands.of_run(described)


@pytest.mark.parametrize("host", ["-oProxyCommand=touch /tmp/x", "a b", "", "$(id)"])
def test_a_host_that_a_program_could_take_for_an_option_is_not_put_into_a_command(folder: Path, host: str) -> None:
    written(folder, "print('ran')", "{host}")
    made = ordered(values={**VALUES, "host": host})
    assert made.exit_code is None and "which is no name of a host" in made.problem and made.output == ""


def test_the_secrets_of_the_connection_are_those_to_hide(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config.write_text(
        "bootstrap.servers=b:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="u" password="{SECRET}";\n'
    )
    config.chmod(0o600)
    assert SECRET in commands.secrets_to_hide(ClusterAccess(command_config=str(config)))

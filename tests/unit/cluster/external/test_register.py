"""The register of what a run creates on a cluster that somebody else runs: what stands in it, and what a killed process
leaves of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from delivery_verifier.cluster.external import register as module
from delivery_verifier.cluster.external.register import Head, Register, all_registers
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.external_cluster import ClusterAccess

HEAD = Head(
    run="r",
    token="abcdefgh",
    cluster_id="an/id=",
    host="a-host",
    access=ClusterAccess(bootstrap_server="b:1"),
    addresses=((11, "b", 1),),
    workspace="/nowhere",
    began_us=1,
)


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Register:
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    made = Register.of_run(HEAD.cluster_id, HEAD.token)
    made.begin(HEAD)
    return made


def standing(register: Register) -> list[tuple[str, str, str]]:
    return [(entry.name, entry.state, entry.topic_id) for entry in register.standing()]


def test_what_was_intended_stands_until_it_is_gone_and_groups_stand_first(register: Register) -> None:
    register.intend("topic", ["a", "b"])
    register.intend("group", ["g"])
    register.created("a", "id-a")
    assert standing(register) == [("g", "intended", ""), ("a", "created", "id-a"), ("b", "intended", "")]
    for entry in register.standing()[:2]:
        register.gone(entry)
    assert standing(register) == [("b", "intended", "")]
    assert register.head() == HEAD and [each.path for each in all_registers()] == [register.path]


def test_only_its_user_can_read_it_whatever_the_name_of_the_cluster(register: Register) -> None:
    assert register.path.stat().st_mode & 0o777 == 0o600
    assert register.path.parent.stat().st_mode & 0o777 == 0o700
    assert register.path.parent.name == "id-an%2Fid%3D"


def test_a_line_that_a_killed_process_did_not_end_says_nothing(register: Register) -> None:
    register.intend("topic", ["a"])
    with register.path.open("ab") as stream:
        stream.write(b'{"kind":"topic","name":"a","sta')
    assert standing(register) == [("a", "intended", "")]


def test_a_line_that_cannot_be_read_ends_it_and_names_the_file(register: Register) -> None:
    with register.path.open("ab") as stream:
        stream.write(b"nonsense\n")
    with pytest.raises(StepFailed, match=r"abcdefgh\.jsonl cannot be read.*begin with kdv-abcdefgh"):
        register.standing()


def test_a_run_has_one_register(register: Register) -> None:
    with pytest.raises(FileExistsError):
        register.begin(HEAD)
    register.end()
    assert all_registers() == []


def test_what_another_process_has_removed_is_never_made_anew(register: Register) -> None:
    register.intend("topic", ["a"])
    (entry,) = register.standing()
    register.end()
    register.gone(entry)
    with pytest.raises(StepFailed, match=r"abcdefgh\.jsonl has been removed"):
        register.created("a", "id-a")
    with pytest.raises(StepFailed, match=r"abcdefgh\.jsonl has been removed"):
        register.intend("topic", ["b"])
    assert all_registers() == []


def test_one_process_at_a_time_removes_and_the_next_sees_that_all_is_gone(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCKED_S", 0.0)
    second = Register(register.path)
    with register.locked() as stands:
        assert stands
        with pytest.raises(DeadlinePassed, match="another process to remove"), second.locked():
            pass
        register.end()
    with second.locked() as stands:
        assert not stands


def test_a_torn_last_line_of_a_killed_process_spoils_no_later_line(register: Register) -> None:
    register.intend("topic", ["a"])
    with register.path.open("ab") as stream:
        stream.write(b'{"kind":"topic","na')
    register.created("a", "id-a")
    assert [each.topic_id for each in register.standing()] == ["id-a"]


def test_a_line_that_the_system_takes_in_parts_is_written_whole(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"""
import resource, signal
from pathlib import Path
from delivery_verifier.cluster.external.register import Register
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
register = Register(Path({str(register.path)!r}))
resource.setrlimit(resource.RLIMIT_FSIZE, (register.path.stat().st_size + 40, resource.RLIM_INFINITY))
register.intend("topic", ["a" * 100])
"""
    assert b"File too large" in subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE).stderr
    register.intend("topic", ["b"])
    assert [each.name for each in register.standing()] == ["b"]

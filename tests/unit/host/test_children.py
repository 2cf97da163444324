"""Children: how they are ended together, what is kept of their words, and which processes stand below a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.patience import PATIENCE_S

from delivery_verifier.host.supervision import children, descendants
from delivery_verifier.host.waiting import DeadlinePassed, wait_until

ENDLESS = "import signal; print('ready', flush=True); signal.pause()"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {ENDLESS}"


@pytest.fixture
def made() -> Iterator[list[children.Child]]:
    """The children of a test, which are killed after it."""
    started = list[children.Child]()
    yield started
    for child in started:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def start(made: list[children.Child], program: str, **more: int) -> children.Child:
    """Starts a child that has said `ready`."""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, **more)  # type: ignore[call-overload]
    made.append(child)
    assert child.stdout.readline() == b"ready\n"
    return child  # type: ignore[no-any-return]


def test_a_module_is_started_with_its_spec_and_all_that_it_prints_is_kept(tmp_path: Path) -> None:
    child = children.start_module("json.tool", b'{"a":1}', tmp_path)
    assert child.wait() == 0
    assert children.last_words(tmp_path, 500) == '{\n    "a": 1\n}'
    assert (tmp_path / "spec.json").read_bytes() == b'{"a":1}'
    assert (tmp_path / "spec.json").stat().st_mode & 0o777 == 0o600, "others may not read what may hold a password"


def test_the_packages_of_an_environment_come_before_all_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shown.py").write_text(f"import os; print({name!r}, os.environ['PYTHONPATH'])")
    for path in (str(tmp_path / "second"), ""):
        monkeypatch.setenv("PYTHONPATH", path)
        assert children.start_module("shown", b"", tmp_path, tmp_path / "first").wait() == 0
        expected = ":".join(filter(None, (str(tmp_path / "first"), path)))
        assert children.last_words(tmp_path, 500) == f"first {expected}"
    assert os.environ["PYTHONPATH"] == ""


@pytest.mark.parametrize(
    ("printed", "most", "last"),
    [("", 5, ""), ("one\ntwo\n", 50, "one\ntwo"), ("first\nsecond\n", 8, "second"), ("abcdefgh", 5, "abcde")],
)
def test_last_words_begin_at_the_beginning_of_a_line(tmp_path: Path, printed: str, most: int, last: str) -> None:
    (tmp_path / "stderr").write_text(printed)
    assert children.last_words(tmp_path, most) == last


def test_all_children_are_killed_and_one_that_has_ended_is_left_alone(made: list[children.Child]) -> None:
    ended = start(made, "print('ready')")
    ended.wait()
    both = [ended, start(made, ENDLESS)]
    assert children.running(both) == both[1:]
    children.kill(both)
    assert [child.returncode for child in both] == [0, -signal.SIGKILL]


def test_a_child_that_does_not_end_on_sigterm_is_named(made: list[children.Child]) -> None:
    obedient, deaf = start(made, ENDLESS), start(made, DEAF)
    with pytest.raises(DeadlinePassed, match="all to end the deaf one"):
        children.terminate([obedient, deaf], "all to end", 0.5, lambda: "the deaf one")
    assert obedient.returncode == -signal.SIGTERM and deaf.poll() is None
    children.kill([deaf])
    children.terminate([obedient, deaf], "all to end", 0.5, str)


def test_a_whole_tree_is_killed_also_what_left_its_group(made: list[children.Child]) -> None:
    away = f"import os, subprocess, sys; os.setsid(); subprocess.Popen([sys.executable, '-c', {ENDLESS!r}]).wait()"
    leader = start(
        made, f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {away!r}]).wait()", process_group=0
    )
    below = descendants.descendants(leader.pid)
    assert len(below) == 2 and {os.getpgid(process.pid) for process in below} != {leader.pid}
    descendants.kill_tree(leader.pid)
    assert not any(map(descendants.runs, below)) and leader.wait() == -signal.SIGKILL
    assert descendants.descendants(leader.pid) == []


def test_a_zombie_does_not_run(made: list[children.Child]) -> None:
    child = start(made, ENDLESS)
    process = psutil.Process(child.pid)
    assert descendants.runs(process)
    process.kill()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, "the child to die", PATIENCE_S)
    assert not descendants.runs(process)
    child.wait()
    assert not descendants.runs(process)


ORPHAN = """
import os, signal, subprocess, sys
from delivery_verifier.host.supervision import descendants
from delivery_verifier.host.waiting import wait_until
if "adopt" in sys.argv:
    descendants.adopt_orphans()
child = "[sys.executable, '-c', 'import signal; signal.pause()'], stdout=subprocess.DEVNULL"
parent = f"import subprocess, sys; print(subprocess.Popen({child}).pid)"
orphan = int(subprocess.run([sys.executable, "-c", parent], stdout=subprocess.PIPE).stdout)
print([process.pid for process in descendants.descendants(os.getpid())] == [orphan])
os.kill(orphan, signal.SIGKILL)

def is_gone():
    descendants.reap()
    return not os.path.exists(f"/proc/{orphan}")

wait_until(is_gone, "the orphan to be reaped", 20)
"""
"""Makes an orphan, says whether it is below this process, and ends when the orphan is gone."""


@pytest.mark.parametrize(("words", "said"), [([], "False"), (["adopt"], "True")])
def test_an_orphan_is_adopted_and_reaped(words: list[str], said: str) -> None:
    """In a process of its own, because a test must not become the parent of other processes."""
    command = [sys.executable, "-c", ORPHAN, *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == (said, 0), done.stderr

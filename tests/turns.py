"""Plans a run of tests from what was asked and from what this host remembers, and remembers what was run.

The memory is a file in the user's cache. It tells a turn of continuous integration which modules have waited longest,
and `make test-all` which modules have passed at this state of the checkout. Without it, a turn begins with a part that
depends on the commit alone, and `make test-all` runs everything.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import batches
import gate
import msgspec
import reach
from batches import COMPOSE, TIERS, Batch, Memory
from support.seeds import NUMBER, ROUND

from delivery_verifier.host.java.jars import cache_dir

if TYPE_CHECKING:
    from tiers import Row

ROOT = gate.HERE.parent
UNTIL = "KDV_TEST_UNTIL"
"""The environment variable with the time, in seconds since 1970, after which nothing begins."""
COMPOSE_TAKES_S = 600.0
"""The tests of docker-compose.yml begin at least so many seconds before UNTIL."""
OF_COMPOSE = ("docker", "plugins/delivery_verifier/cluster/docker", "tests/compose", "uv.lock")
"""Beginnings of the paths of files whose change the tests of docker-compose.yml try."""
DAY_S, SLOT_S = 24 * 3600, 4 * 3600


class Plan(NamedTuple):
    """What is run. `sentence` tells it. `chosen`: the modules of a turn. `owed`: the modules that are left to the next
    turn. `compose`: whether docker-compose.yml is tried, too. `turn` and `state` tell what is remembered."""

    batches: list[Batch]
    sentence: str = ""
    chosen: Collection[str] = ()
    owed: Collection[str] = ()
    compose: bool = False
    turn: bool = False
    state: str = ""


def plan(asked: argparse.Namespace) -> Plan:
    """Returns the plan for what the command line asks for."""
    capabilities = gate.read()
    if asked.turn:
        return _turn(capabilities)
    if asked.all or asked.tiers:
        return _whole(asked.tiers or TIERS, afresh=asked.afresh or not asked.all, compose=asked.all and not asked.tiers)
    if asked.changed:
        since = "HEAD" if asked.changed == "1" else asked.changed
        found = batches.of_change(since, capabilities, quick=asked.quick)
        everything = reach.reaches_everything(reach.changed_files(since))
        said = f"{everything[0]} reaches all tests: this is the gate; make test-all runs all" if everything else ""
        return Plan(found, said if found else f"nothing that was changed since {since} reaches a test")
    if asked.capability:
        named = [one for one in capabilities.capability if asked.capability in one.name]
        return (
            Plan(batches.of_capabilities(named))
            if named
            else sys.exit(f"no capability has the text {asked.capability}")
        )
    return Plan(batches.of_gate(capabilities))


def _turn(capabilities: gate.Gate) -> Plan:
    memory, files = _read(), files_of_the_day_before("HEAD")
    every = batches.beside_the_gate(capabilities)
    slot = int(_git("log", "-1", "--format=%ct")) // SLOT_S
    chosen, owed = batches.choose(every, gate.read_costs().modules, memory, reached(files, every), slot)
    said = [f"turn {memory.turn + 1} of this host, {len(files)} files changed in the last day, {_seeded()}; run:"]
    said += [*chosen, *(f"left to the next turn: {name}" for name in owed)]
    found = batches.of_turn(chosen, memory.owed, capabilities)
    return Plan(found, "\n  ".join(said), chosen, owed, COMPOSE in chosen, turn=True)


def files_of_the_day_before(commit: str) -> list[str]:
    """Returns the files that changed in the 24 hours before a commit, and by it."""
    day_before = int(_git("log", "-1", "--format=%ct", commit)) - DAY_S
    begin = _git("rev-list", "-1", f"--before={day_before}", commit) or _git("rev-list", "--max-parents=0", commit)
    return reach.changed_files(begin.split()[0], commit)


def reached(files: Sequence[str], every: Sequence[str]) -> list[str]:
    """Returns the modules that a change of `files` reaches: all of `every` if it reaches everything."""
    if reach.reaches_everything(files):
        return [*every]
    compose = [COMPOSE] if any(file.startswith(OF_COMPOSE) for file in files) else []
    return [*reach.modules(files, batches.graph()), *compose]


def _whole(tiers: Sequence[str], afresh: bool, compose: bool) -> Plan:
    memory, state = _read(), _state()
    green = memory.green if memory.state == state and not afresh else []
    tell = f"{len(green)} modules have passed at this state and are not run again; AFRESH=1 runs all" if green else ""
    if compose:
        tell = "\n".join(filter(None, (tell, _seeded())))
    return Plan(batches.of_tiers(tiers, green), tell, compose=compose and COMPOSE not in green, state=state)


def _seeded() -> str:
    """Sets the number and the seeds of random histories: other ones each day. Returns the words that repeat them."""
    day = int(_git("log", "-1", "--format=%ct")) // DAY_S
    words = [f"{name}={os.environ.setdefault(name, value)}" for name, value in ((NUMBER, "1000"), (ROUND, str(day)))]
    return f"random histories: {' '.join(words)}"


def remember(what: Plan, rows: Sequence[Row]) -> None:
    """Writes down which modules have passed. A module that failed, or did not begin, comes first in the next turn."""
    bad = {line.split(": ")[1].partition("::")[0].removeprefix("tests/") for row in rows for line in row.failed}
    ran = {one.test.partition("::")[0] for row in rows if not row.left for one in row.spent}
    passed = ran - bad - {module for row in rows for module in row.unfinished}
    memory = _read()
    if what.state:
        memory.green = sorted({*(memory.green if memory.state == what.state else []), *passed})
        memory.state = what.state
    if what.turn:
        memory.turn += 1
        memory.owed = sorted({*what.owed, *what.chosen} - passed - ({COMPOSE} if what.compose else set()))
    memory.ran |= dict.fromkeys(passed, memory.turn) if what.turn or what.state else {}
    _write(memory)


def compose(what: Plan, code: int) -> int:
    """Tries docker-compose.yml on a real engine if the plan says so and the time suffices. Returns the exit code of
    everything."""
    if not what.compose:
        return code
    if what.turn and time.time() + COMPOSE_TAKES_S > float(os.environ.get(UNTIL, "inf")):
        print("not begun, the time was up: the tests of docker-compose.yml; they come first in the next turn")
        memory = _read()
        memory.owed = sorted({*memory.owed, COMPOSE})
        _write(memory)
        return code
    begun = time.monotonic()
    ended = subprocess.run([sys.executable, str(gate.HERE / "composed.py")], check=False).returncode
    print(f"compose: {time.monotonic() - begun:.0f} s by the clock")
    if not ended:
        memory = _read()
        memory.ran[COMPOSE] = memory.turn
        memory.green = sorted({*memory.green, COMPOSE}) if what.state else memory.green
        _write(memory)
    return code or ended


def _state() -> str:
    """Returns a digest of the checkout: the commit, and every change and new file beside it."""
    digest = hashlib.sha256(f"{_git('rev-parse', 'HEAD')}\n{_git('diff', 'HEAD')}".encode())
    for name in _git("ls-files", "--others", "--exclude-standard").splitlines():
        digest.update(name.encode() + ((ROOT / name).read_bytes() if (ROOT / name).is_file() else b""))
    return digest.hexdigest()


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True, text=True).stdout.strip()


def _file() -> Path:
    return cache_dir() / "tests.json"


def _read() -> Memory:
    try:
        return msgspec.json.decode(_file().read_bytes(), type=Memory)
    except (OSError, msgspec.MsgspecError):  # a host that remembers nothing runs more, never less
        return Memory()


def _write(memory: Memory) -> None:
    _file().parent.mkdir(parents=True, exist_ok=True)
    fresh = _file().with_suffix(f".{os.getpid()}")
    fresh.write_bytes(msgspec.json.encode(memory))
    fresh.replace(_file())

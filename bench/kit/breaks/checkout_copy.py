"""A copy of the project in which a break is planted, and runs of its tests there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from msgspec import Struct

from delivery_verifier.cluster.embedded import disks, packet_filter

MARK = "KDV_TEST_BREAK"
"""The environment variable that all processes of a run inherit. It shows which processes a break has left behind."""
PACKAGES = ("delivery_verifier", "spark_jobs", "expectations")
NOT_IMPORTED = "the broken module cannot be imported"


class Outcome(Struct, frozen=True):
    """How a run of tests ended.

    * `failed`: the first test that failed, with the reason, or a process that was left behind; empty if there is none.
    * `cpu_s`: the processor seconds of the tests.
    * `unfit`: why the run says nothing, e.g. NOT_IMPORTED; empty if it says something.
    """

    failed: str
    cpu_s: float
    unfit: str = ""

    def __add__(self, later: Outcome) -> Outcome:
        return Outcome(later.failed, self.cpu_s + later.cpu_s, later.unfit)


def outcome_of(text: str, code: int, *, may_skip: bool = True) -> Outcome:
    """Returns the outcome of a run of tests/tiers.py: `text` is its output, `code` its exit code. Unless `may_skip` is
    true, a run with a skipped test says nothing."""
    lines = text.splitlines()
    failed = [line.removeprefix("failed: ") for line in lines if line.startswith(("failed: ", "left behind by "))]
    spent = re.search(r"^all +\d+ +(\d+) s", text, re.MULTILINE)
    unfit = "" if failed or not code else ([line for line in lines if line.strip()] or ["no output"])[-1]
    passed = re.search(r"^(\d+) passed, 0 failed, (\d+) skipped", text, re.MULTILINE)
    if not code and (passed is None or passed[1] == "0"):
        unfit = "no test was run"
    elif passed and passed[2] != "0" and not may_skip:
        unfit = f"this host lacks what {passed[2]} tests need, e.g. Chromium: they were skipped"
    return Outcome(failed[0] if failed else "", float(spent[1]) if spent else 0.0, unfit)


class Copy:
    """A copy of the tracked files of the project in `root`. The copy is a repository of its own, in which all files are
    committed. `folder` is the copy's folder, which must be empty. The name of the folder is short, because tests make
    Unix sockets below it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder / "kdv"
        self._temporary = folder / "t"  # short: sockets stand below it
        self._temporary.mkdir()
        listed = subprocess.check_output(("git", "ls-files", "-z"), cwd=root, text=True)
        for name in filter(None, listed.split("\0")):
            if (root / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self.folder / name, follow_symlinks=False)
        for name in (".venv", ".venv-uv"):
            (self.folder / name).symlink_to(root / name)
        self._git("init", "--quiet")
        (self.folder / ".git/info/exclude").write_text(".venv\n.venv-uv\n")
        self._git("add", "--all")
        self._git("-c", "user.name=kdv", "-c", "user.email=kdv@localhost", "commit", "--quiet", "-m", "unbroken")
        self._require_own_modules()

    def _git(self, *words: str) -> None:
        subprocess.run(("git", *words), cwd=self.folder, check=True)

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join((str(self.folder / "plugins"), str(self.folder)))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KDV_")}
        return inherited | {"PYTHONPATH": path, "TMPDIR": str(self._temporary), MARK: str(self.folder)}

    def _require_own_modules(self) -> None:
        """Raises RuntimeError if a process that is started somewhere else imports other modules than those of the
        copy."""
        code = "import importlib, sys; [print(importlib.import_module(name).__file__) for name in sys.argv[1:]]"
        command = (self.folder / ".venv/bin/python", "-c", code, *PACKAGES)
        files = subprocess.check_output(command, cwd="/", env=self._environment(), text=True).split()
        if strange := [file for file in files if not Path(file).is_relative_to(self.folder)]:
            raise RuntimeError(f"not of the copy: {strange}")

    @contextmanager
    def planted(self, name: str, text: str) -> Iterator[None]:
        """Gives the file `name` the content `text` inside the block."""
        file = self.folder / name
        unbroken = file.read_text()
        file.write_text(text)
        try:
            yield
        finally:
            file.write_text(unbroken)

    def imports(self, name: str) -> bool:
        """Returns whether the module in the file `name` can be imported. True if the file holds no module of ours."""
        file = Path(name)
        if file.suffix != ".py" or file.parts[0] not in ("plugins", *PACKAGES):
            return True
        module = ".".join(file.with_suffix("").parts).removeprefix("plugins.")
        return self._run("-c", f"import {module}")[1] == 0

    def run(self, *words: str, to_the_end: bool = False) -> Outcome:
        """Runs tests/tiers.py with the options `words`. Each of its processes ends at the first test that fails, unless
        `to_the_end` is true. Then no test may be skipped, either."""
        more = {} if to_the_end else {"PYTEST_ADDOPTS": "-x"}
        return outcome_of(*self._run("tests/tiers.py", *words, **more), may_skip=not to_the_end)

    def passes(self, outcome: Outcome) -> bool:
        """Returns whether the test that failed in `outcome` passes now, or all tests of a module that could not be
        collected."""
        test = re.match(r"[^ :]+::\w+(?=[:[])", outcome.failed) or re.match(r"[^ :]+", outcome.failed)
        return test is not None and self._run("-m", "pytest", "-x", test[0])[1] == 0

    def _run(self, *words: str, **more: str) -> tuple[str, int]:
        """Runs Python. Ends what it leaves behind. Returns its output and its exit code."""
        output = self.folder.parent / "output"
        with output.open("wb") as out:
            process = subprocess.Popen(
                ("nice", self.folder / ".venv/bin/python", *words),
                cwd=self.folder,
                env=self._environment() | more,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            try:
                code = process.wait()
            finally:
                self._clean_up(process)
        return output.read_text(errors="replace"), code

    def _clean_up(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)  # it ends the sessions of its tests
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
        while survivors := [*self._survivors()]:
            for each in survivors:
                with suppress(psutil.Error):
                    each.kill()
            psutil.wait_procs(survivors, 5)
        disks.release(self.folder.parent)
        packet_filter.sweep()
        for entry in self._temporary.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    def _survivors(self) -> Iterator[psutil.Process]:
        """Yields the processes of the last run that are still there. A user's own program has no mark, but works in a
        folder of the run."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_marked = process.environ().get(MARK) == str(self.folder)
                is_inside = Path(process.cwd()).is_relative_to(self._temporary)
                if (is_marked or is_inside) and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

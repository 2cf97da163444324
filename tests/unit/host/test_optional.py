"""Tests of optional work: it may fail or hang, and its caller goes on with a warning."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from delivery_verifier.host.optional import optional

INTERRUPTED = """
import signal, threading
from delivery_verifier.host.optional import optional

signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    optional("the page", threading.Event().wait, 60)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_work_that_ends_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []
    assert optional("the page", lambda: done.append(1), 60) == "" and done == [1]
    assert caplog.text == ""


@pytest.mark.parametrize("error", [ValueError("no room"), SystemExit(3), KeyboardInterrupt("there")])
def test_work_that_fails_is_a_warning_with_its_name_and_reason(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    reason = f"{type(error).__name__}: {error}"
    assert optional("the page", fail, 60) == reason
    assert f"warning: the page failed: {reason}. No verdict rests on it." in caplog.text


def test_work_that_hangs_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    over = threading.Event()
    assert optional("the page", lambda: over.wait(60), 0.05) == "it did not end within 0.05 s"
    assert "the page failed: it did not end" in caplog.text
    over.set()


def test_ctrl_c_ends_the_wait_and_a_hanging_thread_does_not_keep_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "interrupted\n"), ended.stderr

"""Control blocks: words in a mapped file, and the commands that are given and carried out through them."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from delivery_verifier.applications.control import Word as MemberWord
from delivery_verifier.host.supervision import control_block
from delivery_verifier.host.supervision.control_block import (
    WORDS,
    ControlBlock,
    ControlWord,
    WrongByteOrder,
    await_done,
    carry_out,
)
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.load.live_ledger import Word as ProducerWord


class Word(ControlWord):
    ASKED = 0, "fault plan", "commands that were given"
    DONE = 1, "supervisor", "commands that were carried out"
    OTHER = 7, "process", "anything"


class Control(ControlBlock[Word]):
    pass


@pytest.mark.parametrize("words", [MemberWord, ProducerWord])
def test_every_word_fits_into_the_block_and_has_a_place_and_a_meaning_of_its_own(words: type[ControlWord]) -> None:
    assert sorted(words) == list(range(len(words))) and len(words) <= WORDS
    assert all(word.meaning and word.writer in ("process", "supervisor", "fault plan") for word in words)
    assert not [word for word in words if "|" in word.meaning]


def test_a_word_is_eight_bytes_little_endian_at_its_offset_and_outlives_a_sigkill_of_its_writer(tmp_path: Path) -> None:
    program = (
        "import os, signal, pathlib; from delivery_verifier.load.live_ledger import Control, Word; "
        f"Control(pathlib.Path({str(tmp_path)!r}))[Word.AT_EXIT] = -2; os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    content = (tmp_path / "control").read_bytes()
    assert struct.unpack_from("<q", content, ProducerWord.AT_EXIT.offset) == (-2,)
    assert Control(tmp_path).words[ProducerWord.AT_EXIT] == -2


def test_a_word_is_read_without_a_block_of_its_own_and_a_file_that_is_only_half_made_is_refused(tmp_path: Path) -> None:
    Control(tmp_path / "made")[Word.OTHER] = 5
    (tmp_path / "made/control").chmod(0o444)
    assert Control.peek(tmp_path / "made", Word.OTHER) == 5
    with pytest.raises(FileNotFoundError):
        Control.peek(tmp_path, Word.OTHER)
    (tmp_path / "control").write_bytes(bytes(60))
    with pytest.raises(ValueError, match="no word at byte 56"):
        Control.peek(tmp_path, Word.OTHER)


def test_a_big_endian_host_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_block.sys, "byteorder", "big")
    with pytest.raises(WrongByteOrder, match="is big; allowed: little; use another host"):
        Control(tmp_path)


def test_a_command_is_carried_out_once_and_only_when_every_block_has_it(tmp_path: Path) -> None:
    controls = [Control(tmp_path / name) for name in "ab"]
    done = list[str]()
    commands = ((Word.ASKED, Word.DONE, lambda: done.append("work")),)
    controls[0][Word.ASKED] += 1
    carry_out(controls, commands)
    assert not done and controls[0][Word.DONE] == 0, "it is being given"
    with pytest.raises(DeadlinePassed, match="the end of it"):
        await_done(controls, Word.ASKED, Word.DONE, "the end of it", 0.02)
    controls[1][Word.ASKED] += 1
    for _ in range(2):
        carry_out(controls, commands)
        await_done(controls, Word.ASKED, Word.DONE, "the end of it", 0.02)
    assert done == ["work"] and [control[Word.DONE] for control in controls] == [1, 1]
    carry_out([], commands)
    assert done == ["work"]


def test_a_command_that_fails_stays_to_be_done(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control[Word.ASKED] = 1

    def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        carry_out([control], ((Word.ASKED, Word.DONE, fail),))
    assert control[Word.DONE] == 0

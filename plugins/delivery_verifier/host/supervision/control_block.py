"""Control blocks: int64 words in a mapped file, through which a process, its supervisor and the fault plan observe and
steer each other.

The words of a block are the members of a subclass of `ControlWord`, which says once what each word holds and who writes
it. A word that was written stays in the file, even if SIGKILL ends the writer right afterwards.
"""

from __future__ import annotations

import mmap
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Generic, Literal, TypeVar

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import VerifierError

FILE = "control"
"""The name of the file of a control block."""
WORDS = 32
"""The size of every control block, in words. It leaves room for more words."""
WORD_BYTES = 8

Writer = Literal["process", "supervisor", "fault plan"]
"""Who writes a word. `process`: the process that the block belongs to. `supervisor`: the process that started it."""


class WrongByteOrder(VerifierError, RuntimeError):
    """The host is big-endian, and mapped files are little-endian."""


class ControlWord(IntEnum):
    """The words of a kind of control block. A subclass lists them, as `NAME = index, writer, meaning`.

    The value of a member is the index of its word. Indices are part of a binary contract: they never change.
    """

    writer: Writer
    meaning: str

    def __new__(cls, index: int, writer: Writer, meaning: str) -> ControlWord:
        word = int.__new__(cls, index)
        word._value_, word.writer, word.meaning = index, writer, meaning
        return word

    @property
    def offset(self) -> int:
        """Where the word stands in the file, in bytes."""
        return WORD_BYTES * self.value


Word = TypeVar("Word", bound=ControlWord)


class ControlBlock(Generic[Word]):
    """The control block in `folder`, which is created where it is missing. All its words are then 0.

    `words` is the mapped memory itself, for what runs once per record: `__getitem__` would be too slow there.
    Raises WrongByteOrder.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.words, self._map = map_words(folder / FILE, WORDS)

    def __getitem__(self, word: Word) -> int:
        return int(self.words[word])

    def __setitem__(self, word: Word, value: int) -> None:
        self.words[word] = value

    @classmethod
    def peek(cls, folder: Path, word: Word) -> int:
        """Returns `word` of the block in `folder`, without opening the file for writing. Raises OSError if there is no
        such file, and ValueError if it is too short."""
        with (folder / FILE).open("rb") as stream:
            stream.seek(word.offset)
            content = stream.read(WORD_BYTES)
        if len(content) < WORD_BYTES:
            raise ValueError(f"{folder / FILE} has no word at byte {word.offset}")
        return int(struct.unpack("<q", content)[0])


def map_words(file: Path, words: int) -> tuple[memoryview, mmap.mmap]:
    """Maps the first `words` int64 words of `file` into memory. Returns a writable view of the words, and the mmap
    object.

    Processes that map the same file share the words. If the file is missing, creates the file and fills it with zeros.
    Raises WrongByteOrder on a big-endian host, because another program reads and writes these files, too.
    """
    if sys.byteorder != "little":
        raise WrongByteOrder(f"the byte order of this host is {sys.byteorder}; allowed: little; use another host")
    size = words * WORD_BYTES
    with file.open("a+b") as stream:
        if stream.seek(0, 2) < size:
            stream.truncate(size)
        mapped = mmap.mmap(stream.fileno(), size)
    return memoryview(mapped).cast("q"), mapped


def command(controls: Sequence[ControlBlock[Word]], asked: Word, done: Word, what: str, deadline_s: float) -> None:
    """Gives a command to the supervisor of the processes of `controls`, and waits until the supervisor has carried it
    out for each of them.

    `asked` counts the commands that were given, `done` those that were carried out. `what` describes the end of the
    wait in messages. Raises DeadlinePassed after `deadline_s` seconds.
    """
    for control in controls:
        control[asked] += 1
    await_done(controls, asked, done, what, deadline_s)


def await_done(controls: Sequence[ControlBlock[Word]], asked: Word, done: Word, what: str, deadline_s: float) -> None:
    """Waits until the supervisor has carried out all commands that `asked` counts. See `command`."""
    wait_until(lambda: all(control[done] >= control[asked] for control in controls), what, deadline_s, every_s=0.005)


def carry_out(
    controls: Sequence[ControlBlock[Word]], commands: Iterable[tuple[Word, Word, Callable[[], None]]]
) -> None:
    """Carries out the commands that were given to all of `controls`, and counts them as done.

    `commands` has the words `asked` and `done` of each command (see `command`), and a function that carries it out. A
    command counts as given once it is in every block: whoever gives it writes one block after the other. Raises what
    the function raises, and the command then stays to be done.
    """
    for asked, done, work in commands:
        if controls and all(control[asked] > control[done] for control in controls):
            work()
            for control in controls:
                control[done] = control[asked]

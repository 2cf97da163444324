"""Marks: what the fault plan did and when, for people who watch the run. No verdict uses them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from delivery_verifier.model.live import Mark

_FILE = "marks.jsonl"


class Marks:
    """The notes of the step inject_fault about what it has done: a file in the folder `workspace`."""

    def __init__(self, workspace: Path) -> None:
        self._file = workspace / _FILE

    def add(self, text: str, at_us: int) -> None:
        """Notes for those who watch the run that `text` happened at `at_us`, in µs since the epoch."""
        with self._file.open("ab") as stream:
            stream.write(msgspec.json.encode(Mark(at_us, text)) + b"\n")

    def read(self) -> list[Mark]:
        """Returns the marks, oldest first. Ignores a line that is only half written."""
        if not self._file.exists():
            return []
        return [msgspec.json.decode(line, type=Mark) for line in self._file.read_bytes().split(b"\n")[:-1]]

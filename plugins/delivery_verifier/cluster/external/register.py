"""The register: what runs of this home have created on clusters that somebody else runs, and which brokers they have
ordered to be broken.

Each run has one file, `clusters/<cluster id>/<token>.jsonl` in the folder of private state, with mode 0600. A line is
written, and flushed to the disk, before a topic or group can exist, and another one once it does. Only what stands here
is ever removed. The file goes once everything is removed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.history import now_us

Kind = Literal["topic", "group", "broker"]
LOCKED_S = 120.0
"""How long another process may take to remove what stands in a register, in seconds."""
_Line = TypeVar("_Line", "Head", "Entry")


class Head(Struct, frozen=True, kw_only=True):
    """The first line of a register: the run, its cluster, and the way there, which holds no secret.

    * `host`: the host of the run. Another host with the same home cannot know whether the run lives.
    * `addresses`: the brokers as the run first found them, each as (id, host, port).
    * `workspace`: the folder of the run, in which its agent answers while the run lives.
    """

    run: str
    token: str
    cluster_id: str
    host: str
    access: ClusterAccess
    addresses: tuple[tuple[int, str, int], ...]
    workspace: str
    began_us: int


class Entry(Struct, frozen=True, kw_only=True):
    """A later line: what is known of one topic, group or broker from now on.

    * `name`: of a broker, what was ordered: `kill of broker 11`.
    * `state`: intended (it may exist), created, or gone (removed, never created, or not ours). A broker is intended
      from just before the order until it was seen to be whole again; then it is gone from this list.
    * `topic_id`: the id that the cluster gave to the topic; empty if it is not known yet, and for groups.
    """

    kind: Kind
    name: str
    state: Literal["intended", "created", "gone"]
    topic_id: str = ""
    at_us: int

    @property
    def broker(self) -> int:
        """The id of the broker, of an entry for a broker."""
        return int(self.name.rpartition(" ")[2])


class Register:
    """The register of one run. `path` is its file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_run(cls, cluster_id: str, token: str) -> Register:
        """Returns the register of the run with this token, which may not exist yet."""
        return cls(folder() / f"id-{quote(cluster_id, safe='')}" / f"{token}.jsonl")

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, which the name of the folder has: it is known even if the file cannot be read."""
        return unquote(self.path.parent.name.removeprefix("id-"))

    def begin(self, head: Head) -> None:
        """Makes the file, as a whole or not at all. Raises FileExistsError if the run has one already."""
        for each in (folder(), self.path.parent):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = self.path.with_suffix(".new")
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(msgspec.json.encode(head) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(partial, self.path)
        partial.unlink()

    def intend(self, kind: Kind, names: Iterable[str]) -> None:
        """Writes down, before the first of them can exist, what the run is about to create. Raises StepFailed if the
        file has been removed: nothing may be created then."""
        now = now_us()
        self._append(*(Entry(kind=kind, name=name, state="intended", at_us=now) for name in names))

    def created(self, topic: str, topic_id: str) -> None:
        """Writes down the id of a topic that the run has created. Raises StepFailed if the file has been removed."""
        self._append(Entry(kind="topic", name=topic, state="created", topic_id=topic_id, at_us=now_us()))

    def ordered(self, action: str, broker: int) -> Entry:
        """Writes down, before it is ordered, that an action is done to a broker. Returns the entry, for `gone`. Raises
        StepFailed if the file has been removed: nothing may be ordered then."""
        entry = Entry(kind="broker", name=f"{action} of broker {broker}", state="intended", at_us=now_us())
        self._append(entry)
        return entry

    def gone(self, entry: Entry) -> None:
        """Writes down that the topic or group of `entry` is not there any more, or is not the run's. Does nothing if
        the file has been removed: then nothing stands any more."""
        if self.path.exists():
            self._append(msgspec.structs.replace(entry, state="gone", at_us=now_us()))

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Lets nobody else remove what stands here. Yields False if another process has removed all, and the file.

        Raises DeadlinePassed if another process locks it for more than `LOCKED_S` seconds."""
        try:
            stream = self.path.open("rb")
        except FileNotFoundError:
            yield False
            return

        def is_locked() -> bool:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        with stream:
            wait_until(is_locked, f"another process to remove what stands in {self.path}", LOCKED_S, every_s=0.2)
            yield self.path.exists()

    def head(self) -> Head:
        """Returns the first line. Raises StepFailed if it cannot be read, and FileNotFoundError if there is no file."""
        lines = self._lines()
        return self._decoded(lines[0] if lines else b"", Head)

    def standing(self) -> list[Entry]:
        """Returns the last entry of each topic, group and broker that is not gone, topics last. Raises as `head`
        does."""
        last = {(entry.kind, entry.name): entry for entry in (self._decoded(line, Entry) for line in self._lines()[1:])}
        return sorted((each for each in last.values() if each.state != "gone"), key=lambda each: each.kind)

    def end(self) -> None:
        """Removes the file. Call it once nothing stands any more."""
        self.path.unlink(missing_ok=True)

    def _lines(self) -> list[bytes]:
        """Returns the complete lines. What a killed process wrote of a last one says nothing: what the line was about
        had not begun, or the line before says enough."""
        return self.path.read_bytes().split(b"\n")[:-1]

    def _decoded(self, line: bytes, kind: type[_Line]) -> _Line:
        try:
            return msgspec.json.decode(line, type=kind)
        except msgspec.MsgspecError as error:
            raise StepFailed(
                f"{self.path} cannot be read ({error}): look by hand which topics begin with kdv-{self.path.stem}, "
                "remove them, and then this file"
            ) from None

    def _append(self, *lines: Struct) -> None:
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)  # never made anew: it would have no head
        except FileNotFoundError:
            raise StepFailed(f"{self.path} has been removed: another process has ended this run") from None
        with os.fdopen(descriptor, "ab") as stream:  # buffered: a write that the system takes in parts is completed
            torn = self.path.read_bytes().rpartition(b"\n")[2]  # what a killed process wrote of a last line
            if torn:
                stream.truncate(stream.seek(0, os.SEEK_END) - len(torn))
            stream.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            stream.flush()
            os.fsync(stream.fileno())


def folder() -> Path:
    """Returns the folder of all registers."""
    return folders.state_dir() / "clusters"


def all_registers() -> list[Register]:
    """Returns the registers of this home, of all clusters."""
    return [Register(path) for path in sorted(folder().glob("id-*/*.jsonl"))]

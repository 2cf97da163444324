"""The processes of user applications (programs of the user's own): starts members, keeps their output, and finds out
how far they have come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from delivery_verifier.applications.control import Control, State, Word
from delivery_verifier.applications.incarnations import note_marker
from delivery_verifier.applications.own.described import location_of, pattern_of, read_own, secret_environment
from delivery_verifier.applications.own.files import WORK
from delivery_verifier.applications.own.readers import EffectReader, check_grown, reader_of
from delivery_verifier.applications.own.scan import PlaceBusy, blocks_of
from delivery_verifier.applications.own.subreaper import SUPERVISOR_ENDED
from delivery_verifier.applications.sink import SinkInputs
from delivery_verifier.host import folders
from delivery_verifier.host.processes import dies_with_parent
from delivery_verifier.host.supervision.descendants import kill_tree, send_to_tree
from delivery_verifier.model.application import output_topic
from delivery_verifier.model.sink_location import STDOUT, SinkLocation
from delivery_verifier.model.user_application import VARIABLES, redacted_end, secrets_of

INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME")
"""The environment variables of the verifier that a member gets, too. It gets no others, because their values may be
secret."""
BEGUN_S = 60.0
"""If a member has applied nothing for this many seconds after its start, nobody waits for its first effect any more."""
KEPT_BYTES = 64 << 10
"""How much is kept of the end of a member's output."""
MOST_BYTES = 1 << 20
"""An output that grows beyond this size is cut while the member runs. An output with effects is never cut."""
_OUTPUTS = (STDOUT, "stderr")
_REDACTED = "redacted"
"""The name of the copy of an output with effects that has no secrets."""


class Secrets:
    """The variables that the operator gives to one incarnation of a member (`environment`), and the texts in them that
    must stay secret (`texts`). They are kept in memory until the incarnation has ended, because the operator may change
    them meanwhile, and the incarnation may have printed the old ones.

    The constructor raises BadInput if a connection has no value. The representation shows no value.
    """

    def __init__(self, inputs: SinkInputs) -> None:
        assert inputs.arm.application is not None, "only an arm with an application has members"
        self.environment = secret_environment(read_own(inputs.arm.application.name))
        self.texts = secrets_of(self.environment)


def start_own(
    inputs: SinkInputs, group: str, member: int, incarnation: int, secrets: Secrets
) -> subprocess.Popen[bytes]:
    """Starts one incarnation of a member: its subreaper with the command, in a process group of their own.

    The number of the group is the pid of the returned process.
    """
    assert inputs.arm.application is not None, "only an arm with an application has members"
    own, folder = read_own(inputs.arm.application.name), inputs.folder / str(member)
    work, incarnation_folder = folder / WORK, folder / str(incarnation)
    work.mkdir(exist_ok=True)
    incarnation_folder.mkdir(parents=True)
    values: dict[str, object] = {
        "bootstrap.servers": inputs.connection["bootstrap.servers"],
        "topic": inputs.arm.topic_name,
        "group": group,
        "output.topic": output_topic(inputs.arm.topic_name),
        "folder": work,
        "member": member,
        "incarnation": incarnation,
        "home": folders.applications_dir(),
    }
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment |= secrets.environment | {name: str(values[key]) for name, key in VARIABLES.items()}
    python_path = os.pathsep.join(path for path in sys.path if path)
    subreaper = [sys.executable, "-E", "-c", _SUBREAPER, python_path]
    with (incarnation_folder / STDOUT).open("ab") as stdout, (incarnation_folder / "stderr").open("ab") as stderr:
        return subprocess.Popen(
            [*subreaper, *own.words(values)],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            process_group=0,
            preexec_fn=dies_with_parent(SUPERVISOR_ENDED),
        )


_SUBREAPER = (
    "import os, sys; sys.path[:] = sys.argv.pop(1).split(os.pathsep); "
    "from delivery_verifier.applications.own import subreaper; sys.exit(subreaper.main())"
)
"""The Python program that starts the subreaper. It imports modules from the same folders as this process. It ignores
Python's variables in the environment of the user's application, e.g. PYTHONPATH."""


def send_to_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Sends the signal `number` to all processes of an own member (a process of the user application), if the
    member still runs. For SIGKILL, waits until all are dead.

    Raises DeadlinePassed if a process does not die.
    """
    if process.poll() is None:
        kill_tree(process.pid) if number == signal.SIGKILL else send_to_tree(process.pid, number)


class Progress(NamedTuple):
    """How far an own member has come in one incarnation. `began_s` is the time at which the incarnation began, by the
    monotonic clock. `size` is the size of the member's place at this time, in bytes, offsets or rows. `searched` maps
    each part of the place to the position up to which the verifier has looked for markers. `secrets` are those of the
    incarnation."""

    inputs: SinkInputs
    location: SinkLocation
    reader: EffectReader
    folder: Path
    control: Control
    began_s: float
    size: int
    searched: dict[str, int]
    secrets: Secrets

    @classmethod
    def begin(cls, inputs: SinkInputs, member: int, control: Control) -> Progress:
        """Returns the progress of an incarnation that is about to begin. Raises BadInput if a connection has no
        value."""
        folder = inputs.folder / str(member)
        reader = reader_of(inputs, folder)
        sizes = reader.sizes()
        size = sum(sizes.values())
        began_s, secrets = time.monotonic(), Secrets(inputs)
        return cls(inputs, location_of(inputs), reader, folder, control, began_s, size, sizes, secrets)

    @property
    def has_effects(self) -> bool:
        """Whether the effects in the place count for this member. If all members write to one place, its effects count
        for member 0."""
        return not self.location.is_shared or self.folder.name == "0"

    @property
    def is_remote(self) -> bool:
        """Whether the effects are in an output topic or a database."""
        return self.location.is_shared

    def update(self, before: Mapping[str, int]) -> Mapping[str, int]:
        """Notes in the control block how far the member has come. From outside, only the place of its effects can be
        seen. So the number of applied records is replaced by the amount written in this incarnation, in bytes, offsets
        or rows. A member that has written something, or has run for BEGUN_S seconds, counts as one that has partitions.
        If all members write to one place, this is the amount that all have written since the incarnation began. Also
        cuts long outputs.

        `before` has the sizes at the last call. Returns the present sizes, or `before` if the effects are locked.
        Raises StepFailed if a part of the place is gone or has shrunk. An output topic is exempt (see `check_grown`).
        """
        incarnation, sizes = self.folder / str(self.control[Word.INCARNATION]), before
        with suppress(PlaceBusy):  # this is about progress, from which no verdict follows
            sizes = self.reader.sizes()
            check_grown(before, sizes, self.location)
            self.control[Word.APPLIED] = max(sum(sizes.values()) - self.size, 0)
        if self.control[Word.APPLIED] > 0 or time.monotonic() - self.began_s >= BEGUN_S:
            self.control[Word.STATE] = State.ASSIGNED
        for name in _OUTPUTS:
            if name != self.location.output:
                _cut(incarnation / name)
        return sizes

    def note_markers(self) -> None:
        """Notes in the folder of the incarnation which markers the member has applied since the last call: the
        partition of each, and the round in which it was written (see `settlement.snapshot`)."""
        if not self.has_effects:
            return
        pattern, incarnation = pattern_of(self.inputs, self.location), self.folder / str(self.control[Word.INCARNATION])
        with suppress(PlaceBusy):  # a later call finds the same markers
            for partition, number in self.reader.markers(pattern, self.searched):
                note_marker(incarnation, partition, number)


def keep_output(location: SinkLocation, incarnation: Path, secrets: Sequence[str]) -> None:
    """Cuts what an incarnation has printed down to its end, and takes `secrets` out of it. The incarnation has ended.

    Leaves an output with effects as it is, and writes a copy without secrets, if it holds any. `incarnation` is the
    folder of the incarnation.
    """
    for name in _OUTPUTS:
        file = incarnation / name
        if name != location.output:
            file.write_text(redacted_end(_end_of(file), list(secrets)))
            continue
        words = [secret.encode() for secret in secrets]
        if any(word in text for _, text in blocks_of(file) for word in words):
            with (incarnation / _REDACTED).open("wb") as stream:
                for _, text in blocks_of(file):
                    stream.write(reduce(lambda rest, word: rest.replace(word, b"***"), words, text))


def redact_effects(incarnation: Path) -> None:
    """Replaces the secrets in an output with effects. Call it when the effects have been read.

    `incarnation` is the folder of the incarnation. Files that the program has opened itself stay as they are.
    """
    with suppress(FileNotFoundError):  # nothing was secret
        (incarnation / _REDACTED).replace(incarnation / STDOUT)


def printed(inputs: SinkInputs, incarnation: Path) -> str:
    """Returns what an incarnation has printed, except an output that holds effects. Call it after `keep_output`.
    `incarnation` is the folder of the incarnation."""
    output = location_of(inputs).output
    return "".join(
        f"[{name}]\n{(incarnation / name).read_text(errors='replace')}\n" for name in _OUTPUTS if name != output
    )


def last_words(incarnation: Path) -> str:
    """Returns the last 500 characters of each output of an incarnation, joined. Call it after `keep_output`.
    `incarnation` is the folder of the incarnation."""
    return "\n".join(
        (incarnation / name).read_text(errors="replace").strip()[-500:] for name in reversed(_OUTPUTS)
    ).strip()


def _cut(file: Path) -> None:
    """Empties an output file that has grown beyond MOST_BYTES. The member then writes on from the beginning of the
    file, because the file was opened for appending."""
    if file.stat().st_size > MOST_BYTES:
        os.truncate(file, 0)


def _end_of(file: Path) -> str:
    """Returns the last part of a file as text. Of a long file, returns only whole lines."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        stream.seek(max(size - KEPT_BYTES, 0))
        text = stream.read().decode(errors="replace").lstrip("\ufffd")
    return text if size <= KEPT_BYTES else text[text.find("\n") + 1 :]


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills the program of the user application that `process` guards, with every process that the program has
    started. Waits until the subreaper has ended."""
    send_to_group(process, signal.SIGKILL)
    process.wait()

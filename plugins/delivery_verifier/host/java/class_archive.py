"""The class data archive: a file with classes that a JVM has loaded and verified once (JEP 310, JEP 350).

The JVM writes this file when it exits. Later JVMs map the file instead of loading the classes, and so start faster.

On a busy host the writing takes minutes. So only `make setup` and the build of the image have archives written: they
set the variable KDV_WRITE_ARCHIVES. No other run writes one, so that no verdict waits for an optimisation.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import NamedTuple

from delivery_verifier.host import variables
from delivery_verifier.host.java.runtime import java_home, version
from delivery_verifier.host.processes import identify

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""JVM options that silence a JVM's message about an archive that does not fit. The JVM would print the message to
stdout. The message is harmless, because the JVM then runs without the archive."""
WRITING_S = 900.0
"""How much longer a JVM may take to exit if it writes an archive, in seconds."""


def are_written() -> bool:
    """Returns whether this process is to have archives written, i.e. whether KDV_WRITE_ARCHIVES is 1."""
    return variables.flag("KDV_WRITE_ARCHIVES")


def patience_s(usual_s: float) -> float:
    """Returns how long to wait for the exit of a JVM, in seconds: `usual_s`, or longer if archives are written."""
    return usual_s + (WRITING_S if are_written() else 0)


class ClassArchive(NamedTuple):
    """One class data archive. `file` is its path. A file at this path is always a complete archive.

    A JVM writes the archive to another path, `written`, so that no other JVM maps half an archive. `keep` renames
    `written` to `file` once the JVM that writes the archive has ended.
    """

    file: Path

    @classmethod
    def named(cls, folder: Path, program: str) -> ClassArchive:
        """Returns the archive for `program`, e.g. `kafka-4.3.1`, and for the Java in use (see `java_home`).

        The archive's file lies in `folder`. The file's name identifies that Java, because an archive fits only the
        runtime that wrote it. Raises JavaError if there is no usable Java.
        """
        home = java_home()
        stat = (home / "bin/java").stat()
        runtime = zlib.crc32(f"{home}:{stat.st_mtime_ns}:{stat.st_size}".encode())
        return cls(folder / f"{program}-java-{version(home)}-{runtime:x}.jsa")

    @property
    def written(self) -> Path:
        """The path to which a JVM writes the archive. The path contains the pid of this process, which starts the
        JVM."""
        return self.file.with_suffix(f".{os.getpid()}.part")

    def options(self) -> list[str]:
        """Returns options for a JVM. If the archive exists, the options make the JVM use the archive.

        If the archive does not exist, and archives are to be written (see `are_written`), the options make the JVM
        write the archive to `written` when the JVM exits. Otherwise the list is empty. Raises OSError if the folder of
        an archive that is to be written cannot be made.
        """
        if self.file.exists():
            return [f"-XX:SharedArchiveFile={self.file}", "-Xshare:auto", *QUIET.split()]
        if not are_written():
            return []
        self.file.parent.mkdir(parents=True, exist_ok=True)
        return [f"-XX:ArchiveClassesAtExit={self.written}", *QUIET.split()]

    def keep(self) -> None:
        """Renames `written` to `file`. Then removes the unfinished archives of processes that have ended.

        Call this method only after the JVM that writes the archive has ended, because the archive is complete only
        then. Does nothing if no JVM of this process wrote an archive.
        """
        if self.written.exists():
            os.replace(self.written, self.file)
            for unfinished in self.file.parent.glob(f"{self.file.stem}.*.part"):
                pid = unfinished.suffixes[-2].removeprefix(".")
                if pid.isdigit() and identify(int(pid)) is None:  # else the JVM of a process that lives may still write
                    unfinished.unlink(missing_ok=True)

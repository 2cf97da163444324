"""The class data archive: a JVM writes the classes that it has loaded and verified to a file, and later JVMs map that
file (JEP 310, JEP 350)."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import NamedTuple

from delivery_verifier.host.java.runtime import java_home, version

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""JVM options that silence the message on stdout that an archive does not fit. The JVM simply runs without such an
archive."""


class ClassArchive(NamedTuple):
    """One archive. `file` exists only if the archive is complete.

    A JVM writes the file `written`. Once that JVM has ended, `keep` renames `written` to `file`.
    """

    file: Path

    @classmethod
    def named(cls, folder: Path, program: str) -> ClassArchive:
        """Returns the archive of `program` in `folder` for the Java in use.

        The file's name identifies that Java, because an archive fits only the runtime that wrote it.
        """
        home = java_home()
        stat = (home / "bin/java").stat()
        runtime = zlib.crc32(f"{home}:{stat.st_mtime_ns}:{stat.st_size}".encode())
        return cls(folder / f"{program}-java-{version(home)}-{runtime:x}.jsa")

    @property
    def written(self) -> Path:
        """The file into which a JVM that this process started writes the archive."""
        return self.file.with_suffix(f".{os.getpid()}.part")

    def options(self) -> list[str]:
        """Returns the JVM options that use the archive or, if there is no archive, write it at the JVM's exit.

        The list is empty if the archive does not exist and cannot be written.
        """
        if self.file.exists():
            return [f"-XX:SharedArchiveFile={self.file}", "-Xshare:auto", *QUIET.split()]
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return []
        if not os.access(self.file.parent, os.W_OK):
            return []
        return [f"-XX:ArchiveClassesAtExit={self.written}", *QUIET.split()]

    def keep(self) -> None:
        """Gives its final name to the archive that a JVM of this process wrote.

        Removes unfinished archives of other processes. Call this method once that JVM has ended.
        """
        if self.written.exists():
            os.replace(self.written, self.file)
            for leftover in self.file.parent.glob(f"{self.file.stem}.*.part"):
                leftover.unlink(missing_ok=True)

"""The class data archive: what a JVM has loaded and verified once, mapped by the next one (JEP 310, JEP 350)."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import NamedTuple

from delivery_verifier.host.java.runtime import java_home, version

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Silences the JVM's message on stdout that an archive does not fit. The JVM then simply runs without the archive."""


class ClassArchive(NamedTuple):
    """One archive. `file` exists only if it is whole: `keep` names the file once the JVM that wrote the archive has
    ended."""

    file: Path

    @classmethod
    def named(cls, folder: Path, program: str) -> ClassArchive:
        """The archive of `program` for the Java in use: an archive only fits the runtime that wrote it."""
        home = java_home()
        stat = (home / "bin/java").stat()
        runtime = zlib.crc32(f"{home}:{stat.st_mtime_ns}:{stat.st_size}".encode())
        return cls(folder / f"{program}-java-{version(home)}-{runtime:x}.jsa")

    @property
    def written(self) -> Path:
        """The file into which a JVM that this process started writes its archive."""
        return self.file.with_suffix(f".{os.getpid()}.part")

    def options(self) -> list[str]:
        """The JVM options that use the archive or, if there is none, write it at the JVM's exit.

        The list is empty if the archive can be neither read nor written.
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
        """Gives the archive that a JVM of this process wrote its final name. Removes unfinished archives of others.

        Call it once that JVM has ended.
        """
        if self.written.exists():
            os.replace(self.written, self.file)
            for leftover in self.file.parent.glob(f"{self.file.stem}.*.part"):
                leftover.unlink(missing_ok=True)

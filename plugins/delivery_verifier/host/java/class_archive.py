"""The class data archive: what a JVM has loaded and verified once, mapped by the next one (JEP 310, JEP 350)."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import NamedTuple

from delivery_verifier.host.java.runtime import java_home, version

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""An archive that does not fit is left aside by the JVM; that it says so on stdout helps nobody."""


class ClassArchive(NamedTuple):
    """One archive. `file` only exists if it is whole: `keep` gives it its name once the JVM that wrote it has ended."""

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
        """Where a JVM started by this process writes."""
        return self.file.with_suffix(f".{os.getpid()}.part")

    def options(self) -> list[str]:
        """What lets a JVM use the archive, or write it at its exit. Nothing where it can be neither read nor
        written."""
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
        """Takes over what a JVM of this process has written, now that it has ended. Others' leftovers go."""
        if self.written.exists():
            os.replace(self.written, self.file)
            for left in self.file.parent.glob(f"{self.file.stem}.*.part"):
                left.unlink(missing_ok=True)

"""The jars of Kafka's brokers, of its Java client, and of Spark's Kafka connector.

The lock file `jars.lock.json` names each jar with its size and checksum. A jar is fetched once into the user's cache,
and its checksum is verified. An interrupted download is resumed. The jars come from Maven Central or from the mirror
that KDV_MAVEN_MIRROR names (a base URL with Maven's layout).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from filelock import FileLock

from delivery_verifier.host import variables
from delivery_verifier.model.errors import VerifierError

if TYPE_CHECKING:
    import httpx  # httpx imports Click and Rich, and only a download needs it

LOCK_FILE = Path(__file__).with_name("jars.lock.json")
MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
DEFAULT_KAFKA = "4.3.1"

_JAVA_CLIENT = "java-client-"
"""What the names of the sets of jars of the Java client begin with."""


class JarError(VerifierError, RuntimeError):
    """A jar could not be fetched, a jar's checksum is wrong, or the lock file lacks the jars of a Kafka version."""


def cache_dir() -> Path:
    """Returns the cache: a folder of files that can be made again, for example jars and class data archives.

    KDV_CACHE names the cache. If KDV_CACHE is unset, the cache is a folder of this project in the user's own cache.
    """
    return variables.path("KDV_CACHE") or Path(platformdirs.user_cache_dir("kafka-delivery-verifier"))


def kafka_versions() -> list[str]:
    """Returns the Kafka versions in the lock file. Brokers of these versions can be started."""
    return sorted(name.removeprefix("kafka-") for name in _lock() if name.startswith("kafka-4"))


def kafka_jars(version: str, progress: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Returns the class path of a broker of Kafka `version`. Fetches missing jars.

    Before the download, calls `progress` with a line about the missing jars. The jars always have the same order,
    because a class data archive (see `class_archive`) fits only the class path with which the archive was written.
    Raises JarError if the lock file does not know `version`, if a download fails, or if a checksum is wrong.
    """
    if f"kafka-{version}" not in _lock():
        raise JarError(f"kafka_version is {version!r}; known are {', '.join(kafka_versions())}")
    return fetch(f"kafka-{version}", progress)


def java_client_versions() -> list[str]:
    """Returns the versions of the Java client in the lock file. Producers of the load can run with these versions."""
    names = (name for name in _lock() if name.startswith(_JAVA_CLIENT))
    return sorted(name.removeprefix(_JAVA_CLIENT) for name in names)


def java_client_jars(version: str, progress: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Returns the class path of the Java client in `version`. Fetches missing jars.

    Before the download, calls `progress` with a line about the missing jars. Raises JarError if the lock file does not
    know `version`, if a download fails, or if a checksum is wrong.
    """
    if version not in java_client_versions():
        raise JarError(f"the Java client's version is {version!r}; known are {', '.join(java_client_versions())}")
    return fetch(f"{_JAVA_CLIENT}{version}", progress)


def spark_jars(progress: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Returns the jars of Spark's Kafka connector and its dependencies, for the property `spark.jars`.

    Fetches missing jars. Before the download, calls `progress` with a line about the missing jars. Raises JarError if a
    download fails or a checksum is wrong.
    """
    return fetch("spark-kafka", progress)


def fetch(name: str, progress: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Returns the jars of one set of the lock file. `name` is the name of the set, e.g. `spark-kafka`.

    Fetches missing jars into the cache. Before the download, calls `progress` with a line about the missing jars.
    Raises KeyError for an unknown set. Raises JarError if a download fails or a checksum is wrong. Raises
    filelock.Timeout if another process locks the cache for more than 600 s.
    """
    folder = cache_dir() / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    entries = _lock()[name]
    with FileLock(folder / ".lock", timeout=600):
        missing = [entry for entry in entries if not _is_whole(folder / entry["path"], entry)]
        if missing:
            size = sum(int(entry["bytes"]) for entry in missing) / 1e6
            progress(f"fetching {len(missing)} jars ({size:.0f} MB) from {mirror()}")
            import httpx

            with httpx.Client(follow_redirects=True, timeout=60) as client, ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda entry: _download(client, folder / entry["path"], entry), missing))
    return [folder / entry["path"] for entry in entries]


def missing_bytes(version: str = DEFAULT_KAFKA) -> int:
    """Returns how many bytes of jars a run with Kafka `version` would have to fetch. Fetches nothing."""
    entries = [*_lock().get(f"kafka-{version}", []), *_lock()["spark-kafka"]]
    return sum(int(entry["bytes"]) for entry in entries if not _is_whole(cache_dir() / "jars" / entry["path"], entry))


def mirror() -> str:
    """Returns the base URL from which jars are fetched. The URL has no slash at its end.

    Raises BadInput if KDV_MAVEN_MIRROR is not an http or https URL.
    """
    return variables.url("KDV_MAVEN_MIRROR", MAVEN_CENTRAL)


def _lock() -> dict[str, list[dict[str, str]]]:
    """Returns the content of the lock file. Maps the name of each set of jars to one entry per jar: its path, size and
    checksum."""
    lock: dict[str, list[dict[str, str]]] = json.loads(LOCK_FILE.read_text())
    return lock


def _is_whole(file: Path, entry: dict[str, str]) -> bool:
    """Returns whether the jar `file` exists and has the size that `entry` of the lock file names.

    The size is enough, because a jar gets its final name only after its checksum was verified.
    """
    return file.is_file() and file.stat().st_size == int(entry["bytes"])


def _download(client: httpx.Client, file: Path, entry: dict[str, str]) -> None:
    """Fetches one jar to `file`. Tries at most three times.

    Raises JarError if every try fails, or if the checksum of the jar is wrong.
    """
    import httpx

    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".part")
    url = f"{mirror()}/{entry['path']}"
    for last_try in (False, False, True):
        try:
            _resume(client, url, partial)
            break
        except httpx.HTTPError as error:
            if last_try:
                raise JarError(
                    f"cannot fetch {url}: {error}. Check the network, or name a mirror in KDV_MAVEN_MIRROR"
                ) from error
    with partial.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != entry["sha256"]:
        partial.unlink()
        raise JarError(f"{url} has SHA-256 {digest}, but jars.lock.json names {entry['sha256']}: refused")
    os.replace(partial, file)


def _resume(client: httpx.Client, url: str, partial: Path) -> None:
    """Fetches the rest of the file at `url`, and appends this rest to the file `partial`.

    If the server can only send the whole file, overwrites `partial` with the whole file. Raises httpx.HTTPError if the
    download fails.
    """
    import httpx

    fetched_bytes = partial.stat().st_size if partial.exists() else 0
    with client.stream("GET", url, headers={"Range": f"bytes={fetched_bytes}-"} if fetched_bytes else {}) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            partial.unlink()
            raise httpx.TransportError("the partial file is longer than the jar")
        response.raise_for_status()
        with partial.open("ab" if response.status_code == httpx.codes.PARTIAL_CONTENT else "wb") as out:
            for chunk in response.iter_bytes():
                out.write(chunk)


def main() -> int:
    """Runs `python -m delivery_verifier.host.java.jars [VERSION]`. Returns the exit code.

    Fetches the jars of Kafka VERSION (default: 4.3.1) and of Spark's Kafka connector.
    If a jar cannot be fetched, prints one line to stderr and returns 1.
    """
    try:
        kafka_jars(sys.argv[1] if len(sys.argv) > 1 else "4.3.1", print)
        spark_jars(print)
    except JarError as error:
        print(f"kdv: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A tool for maintainers: resolves the jars of the supported Kafka versions and of Spark, and writes `jars.lock.json`.

Run `python -m delivery_verifier.host.java.lock_jars`. Ivy, which PySpark ships, resolves the jars. Users fetch only the
jars that the lock file names.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

from delivery_verifier.host.java.jars import LOCK_FILE
from delivery_verifier.host.java.runtime import java_home

KAFKA_VERSIONS = ("4.0.2", "4.1.2", "4.2.1", "4.3.1", "4.4.0")
OLDER_BROKERS = ("3.9.2",)
"""Versions of brokers that only tests start, as a cluster that somebody else runs."""
LOG4J = "2.25.4"
SLF4J = "org.slf4j:slf4j-api:1.7.36"
"""The logging interface without which a client does not start."""
NOT_PUBLISHED = {"4.4.0": "kafka-tools-api"}
"""Maps a Kafka version to a module that its jars do not include. This module has interfaces for command line tools. No
broker loads these interfaces, and some mirrors lack the module."""
TOOLS_VERSION = "4.3.1"
CLIENT_VERSIONS = (
    *("2.1.1", "2.8.2", "3.0.0", "3.0.1", "3.0.2", "3.1.0", "3.1.1"),
    *("3.2.3", "3.6.2", "3.7.2", "3.9.2", "4.0.2", "4.4.0"),
)
"""The versions of the Java client with which tests compare the table of its defaults. No run uses them."""
JAVA_CLIENTS = ("3.9.2", "4.1.1", "4.1.2", "4.3.1", "4.4.0")
"""The versions of the Java client with which an arm's producers can run."""
SLF4J_SIMPLE = "org.slf4j:slf4j-simple:1.7.36"
"""Prints what a Java client logs to stderr. Without it, a client logs nowhere."""
SPARK_JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)

SPRING_BOOT_JARS = (
    "org.springframework.boot:spring-boot-autoconfigure:3.4.11",
    "org.springframework.boot:spring-boot-kafka:4.0.0",
)
"""The jars whose metadata list the names that Spring Boot binds. Only a test reads them."""


def main() -> None:
    """Resolves every set of jars and writes the lock file."""
    with tempfile.TemporaryDirectory() as work:
        cache = Path(work)
        lock = {
            f"kafka-{version}": _resolve(cache, _kafka(version), NOT_PUBLISHED.get(version))
            for version in (*KAFKA_VERSIONS, *OLDER_BROKERS)
        }
        tools = [*_kafka(TOOLS_VERSION), f"org.apache.kafka:kafka-tools:{TOOLS_VERSION}"]
        lock[f"kafka-tools-{TOOLS_VERSION}"] = _resolve(cache, tools, None)
        for version in CLIENT_VERSIONS:
            client = [f"org.apache.kafka:kafka-clients:{version}", SLF4J]
            lock[f"kafka-clients-{version}"] = _resolve(cache, client, None, transitive=False)
        for version in JAVA_CLIENTS:
            # The codecs are in the metadata of each release of the client.
            client = [f"org.apache.kafka:kafka-clients:{version}", SLF4J, SLF4J_SIMPLE]
            lock[f"java-client-{version}"] = _resolve(cache, client, None)
        lock["spark-kafka"] = _resolve(cache, list(SPARK_JARS), None, transitive=False)
        lock["spring-boot"] = _resolve(cache, list(SPRING_BOOT_JARS), None, transitive=False)
    LOCK_FILE.write_text(json.dumps(lock, indent=1, sort_keys=True) + "\n")


def _kafka(version: str) -> list[str]:
    """Returns the Maven coordinates of a broker of Kafka `version`, and of the logging libraries that the broker
    uses."""
    return [
        f"org.apache.kafka:kafka_2.13:{version}",
        f"org.apache.logging.log4j:log4j-core:{LOG4J}",
        f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J}",
    ]


def _resolve(
    cache: Path, coordinates: list[str], exclude: str | None, transitive: bool = True
) -> list[dict[str, str | int]]:
    """Finds the jars of the Maven modules `coordinates`. Returns one entry for the lock file per jar.

    `exclude` is the name of a module whose jar is left out; None leaves out no module. If `transitive` is true, the
    result includes the jars of all dependencies. `cache` is a folder for Ivy's files.
    """
    ivy_jar = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    rows = "".join(
        f'<dependency org="{g}" name="{a}" rev="{v}" transitive="{str(transitive).lower()}" '
        f'conf="default->{"runtime(*)," if transitive else ""}master(*)"/>'
        for g, a, v in (coordinate.split(":") for coordinate in coordinates)
    )
    out = f'<exclude module="{exclude}"/>' if exclude else ""
    module = cache / "ivy.xml"
    module.write_text(
        f'<ivy-module version="2.0"><info organisation="kdv" module="m"/><dependencies>{rows}{out}'
        "</dependencies></ivy-module>"
    )
    listing = cache / "libs"
    shutil.rmtree(listing, ignore_errors=True)
    pattern = f"{listing}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"
    subprocess.run(
        [
            java_home() / "bin/java",
            "-jar",
            ivy_jar,
            "-ivy",
            module,
            "-cache",
            cache / "cache",
            "-retrieve",
            pattern,
            "-types",
            "jar",
            "bundle",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return [_entry(jar, listing) for jar in sorted(listing.rglob("*.jar"))]


def _entry(jar: Path, listing: Path) -> dict[str, str | int]:
    """Returns the lock file's entry for `jar`, which Ivy put below the folder `listing`.

    An entry holds the path in Maven's layout, the checksum and the size in bytes.
    """
    group, module, revision, name = jar.relative_to(listing).parts
    content = jar.read_bytes()
    return {
        "path": f"{group.replace('.', '/')}/{module}/{revision}/{name}",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }


if __name__ == "__main__":
    main()

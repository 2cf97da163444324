"""The names that Spring Boot binds below `spring.kafka`, as its own jars list them."""

from __future__ import annotations

import json
import zipfile
from functools import cache

from delivery_verifier.host.java import jars

PREFIX = "spring.kafka."


@cache
def bound_names() -> frozenset[str]:
    """Returns the names, without their prefix, of all jars in the lock file's set `spring-boot`. Fetches the jars if
    they are missing."""
    names = set[str]()
    for jar in jars.fetch("spring-boot"):
        with zipfile.ZipFile(jar) as archive:
            metadata = json.loads(archive.read("META-INF/spring-configuration-metadata.json"))
        names |= {each["name"] for each in metadata["properties"]}
    return frozenset(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))

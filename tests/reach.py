"""Finds the tests that a change can reach, from the graph of imports.

ruff computes the graph, with the modules that are named in texts, as in `python -m delivery_verifier.load.producer`.
What imports do not show stands in DATA and TEXTS. A distance is the number of imports from a test to a changed file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

import gate
from gate import Capability

ROOT = gate.HERE.parent
SOURCES = ("plugins", "spark_jobs", "expectations", "dags", "tests", "docs", "bench", "docker")
LIBRARY = "plugins/delivery_verifier/"
HEAVY_WITHIN = 2
"""Tests outside unit/ are reached over at most so many imports. Farther tests are left to `make test-all`."""
EVERYTHING = ("Makefile", "pyproject.toml", "uv.lock", "tests/conftest.py", "tests/tiers.py", "tests/batches.py")
"""A change of one of these files reaches all tests."""
DATA = {
    "plugins/delivery_verifier/reporting/*templates/*": ("plugins/delivery_verifier/reporting/html.py",),
    "plugins/delivery_verifier/host/java/jars.lock.json": ("plugins/delivery_verifier/host/java/jars.py",),
    f"{LIBRARY}planning/own_settings/kafka_names.json": (f"{LIBRARY}planning/own_settings/known_names.py",),
    f"{LIBRARY}cluster/embedded/means/*": (
        f"{LIBRARY}cluster/embedded/agent.py",
        f"{LIBRARY}cluster/embedded/capabilities.py",
        "tests/unit/cluster/test_means.py",
        "tests/kafka/shared_cluster/test_backend_contract.py",
        "tests/kafka/test_outages.py",
        "tests/kafka/test_proxy.py",
    ),
    f"{LIBRARY}cluster/docker/means/*": (
        f"{LIBRARY}cluster/docker/agent.py",
        "tests/unit/cluster/test_means.py",
        "tests/compose/test_docker_backend.py",
    ),
    "plugins/.airflowignore": ("tests/airflow/test_plugins_folder.py",),
    "expectations/data_docs/templates/*": ("expectations/data_docs/views.py",),
    "expectations/*.json": ("expectations/suites.py",),
    "spark_jobs/session/log4j2.properties": ("spark_jobs/session/classic.py",),
    "dags/*": tuple(f"tests/airflow/test_{name}.py" for name in ("dag", "catalogue_dag", "plugins_folder")),
    "docker*": ("tests/unit/test_compose_files.py", "tests/compose/composition.py"),
    "docs/examples/*": ("docs/generate/promises.py",),
    "docs/how-it-is-built.md": ("tests/unit/test_architecture.py",),
    "docs/pictures/*": ("tests/support/pictures.py",),
    "docs/results/*": ("tests/unit/test_mutants.py",),
    "bench/campaigns/*.toml": ("tests/unit/test_mutants.py", "tests/unit/bench/test_breaks.py"),
    "bench/kit/sinks/*": ("tests/catalogue/test_programs.py",),
    "tests/data/*": ("tests/support/stored_data.py",),
    "tests/support/standins/*": ("tests/support/standins/__init__.py",),
    "tests/*.toml": ("tests/gate.py",),
    "tests/*.json": ("tests/gate.py",),
}
"""Maps patterns of files that are read, or found by their name, and not imported, to the modules that do so."""
NOT_TESTED = (".ci/*", ".dockerignore", ".editorconfig", ".git*", ".pre-commit-config.yaml", "LICENSE", "*/py.typed")
"""Patterns of files that no test reads."""
TEXTS = ("unit/test_links.py", "unit/test_prose.py", "unit/test_documents.py")
"""The tests of all texts, which a change of any file with a text for people reaches."""


def graph(root: Path = ROOT) -> dict[str, list[str]]:
    """Returns the files that each file imports, by path below `root`. A module of tests has the fixtures of its folder,
    so it imports the conftest.py of its folder, too. The one of tests/ is in EVERYTHING."""
    ruff = Path(sys.executable).with_name("ruff")
    options = ["--quiet", "--detect-string-imports", "--min-dots", "1", "--config", 'src=["plugins",".","tests"]']
    there = [name for name in SOURCES if (root / name).is_dir()]
    found = subprocess.run(
        [ruff, "analyze", "graph", *options, *there], cwd=root, capture_output=True, check=True, text=True
    )
    imports: dict[str, list[str]] = json.loads(found.stdout)
    return {file: [*used, *_of_fixtures(file, imports)] for file, used in imports.items()}


def _of_fixtures(file: str, imports: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yields the conftest.py of each folder above a module of tests, and what it imports: both at distance 1."""
    for folder in Path(file).parents:
        fixtures = f"{folder}/conftest.py"
        if folder.parts[:1] == ("tests",) and len(folder.parts) > 1 and fixtures in imports and fixtures != file:
            yield from (fixtures, *imports[fixtures])


def changed_files(since: str, until: str | None = None, root: Path = ROOT) -> list[str]:
    """Returns the files that differ between a commit and another, or the work tree with the files that git does not
    track. Raises SystemExit if git does not know a commit."""
    git = ["git", "-C", str(root)]
    asked = [[*git, "diff", "--name-only", since, *([until] if until else [])]]
    asked += [] if until else [[*git, "ls-files", "--others", "--exclude-standard"]]
    answers = [subprocess.run(command, capture_output=True, text=True, check=False) for command in asked]
    if failed := [answer.stderr.strip() for answer in answers if answer.returncode]:
        sys.exit(f"CHANGED names no commit. Say CHANGED=origin/main, or CHANGED=1 for HEAD. {failed[0]}")
    return sorted({line for answer in answers for line in answer.stdout.splitlines()})


def distances(files: Iterable[str], imports: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Returns all files that import one of `files`, directly or not, with their distance. `files` have distance 0."""
    users: dict[str, list[str]] = {}
    for user, used in imports.items():
        for name in used:
            users.setdefault(name, []).append(user)
    found = dict.fromkeys((name for file in files for name in (file, *_readers(file))), 0)
    queue = deque(found)
    while queue:
        file = queue.popleft()
        for user in users.get(file, ()):
            if user not in found:
                found[user] = found[file] + 1
                queue.append(user)
    return found


def _readers(file: str) -> list[str]:
    return [reader for pattern, readers in DATA.items() if fnmatch(file, pattern) for reader in readers]


def reaches_everything(files: Iterable[str]) -> list[str]:
    """Returns those of `files` whose change reaches all tests."""
    return [file for file in files if file in EVERYTHING]


def modules(files: Iterable[str], imports: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Returns the modules of tests that a change of `files` reaches, by path below tests/, with their distance.

    Those of unit/ are reached at any distance, all others over at most HEAVY_WITHIN imports."""
    files = [*files]
    found = distances(files, imports)
    tests = {file.removeprefix("tests/"): at for file, at in found.items() if _is_test(file)}
    if any(file.endswith(".md") or file.startswith("docs/") for file in files):
        tests |= dict.fromkeys(TEXTS, 0)
    if any(file.endswith(".py") for file in files):
        tests["unit/test_architecture.py"] = 0
    return {name: at for name, at in sorted(tests.items()) if name.startswith("unit/") or at <= HEAVY_WITHIN}


def _is_test(file: str) -> bool:
    return file.startswith("tests/") and Path(file).name.startswith("test_") and (ROOT / file).exists()


def capabilities(files: Iterable[str], every: Iterable[Capability]) -> list[Capability]:
    """Returns the capabilities of the rooms that a change of `files` touches. The room "*" is every room."""
    rooms = {room for file in files if (room := room_of(file))}
    return [one for one in every if rooms & {*one.rooms} or (rooms and "*" in one.rooms)]


def room_of(file: str) -> str | None:
    """Returns the room of a file of the product: a folder of the library, or of the top level."""
    if file.startswith(LIBRARY):
        room, _, module = file.removeprefix(LIBRARY).partition("/")
        return room if module else None
    top = file.split("/")[0]
    return top if top in ("spark_jobs", "expectations", "dags", "docker") else None

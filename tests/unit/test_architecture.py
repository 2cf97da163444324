"""Tests of the architecture: the imports between rooms (packages), the modules that may import a heavy dependency, the
sizes of files and functions, and the description of each room.

Each rule is also applied to a tiny broken tree. There it must find exactly the offence that was put in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.architecture import (
    Concept,
    import_circles,
    imports_against_the_table,
    imports_elsewhere,
    long_files,
    long_functions,
    partial_tables,
    picture,
    private_names,
    silent_rooms,
    stale_imports,
)

from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import DISTURBANCES
from delivery_verifier.model.steps import STEPS

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "plugins" / "delivery_verifier"
PACKAGES = (
    LIBRARY,
    ROOT / "plugins" / "delivery_plugin.py",
    ROOT / "spark_jobs",
    ROOT / "expectations",
    ROOT / "dags" / "verify_delivery.py",
    ROOT / "dags" / "verify_catalogue.py",
    ROOT / "dags" / "audit_delivery.py",
    ROOT / "dags" / "verify_sentinel.py",
)

_ALL = (
    "model host catalogue contract run_directory cluster load faults verdict advice planning pipeline reporting suite "
    "audit"
)
MAY_USE: dict[str, tuple[str, ...]] = {
    room: tuple(rooms.split())
    for room, rooms in {
        "verify_delivery": "orchestration",
        "verify_catalogue": "orchestration suite pipeline catalogue model",
        "audit_delivery": "orchestration audit",
        "verify_sentinel": "orchestration planning",
        "delivery_plugin": "orchestration",
        "__main__": "command_line",
        "command_line": f"maintenance local_airflow orchestration progress expectations spark_jobs {_ALL}",
        "maintenance": "local_airflow planning cluster run_directory host model",
        "local_airflow": "orchestration pipeline cluster spark_jobs run_directory host model",
        "orchestration": "audit suite pipeline progress reporting planning cluster catalogue spark_jobs "
        "run_directory host"
        " model",
        "suite": "pipeline reporting verdict planning catalogue cluster expectations spark_jobs run_directory host "
        "model",
        "audit": "planning verdict spark_jobs cluster catalogue run_directory host model",
        "pipeline": "planning reporting advice verdict settlement progress canary expectations spark_jobs faults "
        "applications"
        " load cluster run_directory host model",
        "reporting": "contract.guarantees contract.settings catalogue run_directory host model",
        "advice": "verdict contract catalogue run_directory model",
        "expectations": "verdict run_directory host.optional model",
        "planning": "contract catalogue load.layout load.java.settings cluster host model",
        "settlement": "canary applications load cluster run_directory host model",
        "progress": "load run_directory host model",
        "verdict": "canary contract run_directory model",
        "canary": "run_directory model",
        "faults": "load applications cluster contract host model",
        "spark_jobs": "run_directory host model",
        "load": "run_directory host model",
        "applications": "load.client_errors load.java.settings run_directory host model",
        "cluster": "run_directory host model",
        "run_directory": "host model",
        "contract": "model",
        "catalogue": "model",
        "host": "model.inputs model.errors",
        "model": "",
        "delivery_verifier": "",
    }.items()
}
"""Maps each room (package) to the rooms, or parts of a room, that it may import. A room stands above all rooms that it
may use."""

FLOORS_OF_SPARK: dict[str, tuple[str, ...]] = {
    part: tuple(used.split())
    for part, used in {
        "spark_jobs": "",
        "reconcile": "checks effects summaries matching reading session schemas",
        "checks": "matching reading schemas",
        "effects": "matching reading schemas",
        "summaries": "matching literals schemas",
        "matching": "reading literals schemas",
        "reading": "literals schemas",
        "session": "",
        "literals": "",
        "schemas": "",
    }.items()
}
"""Maps each folder of `spark_jobs`, and each module beside the folders, to those that it may import."""

WITHOUT_INTRODUCTION = {
    *("verify_delivery", "verify_catalogue", "audit_delivery", "verify_sentinel", "delivery_plugin"),
    *("__main__", "delivery_verifier"),
}

IMPORT_POINTS: dict[str, tuple[str, ...]] = {
    "airflow": (
        *("orchestration", "verify_delivery", "verify_catalogue", "audit_delivery", "verify_sentinel"),
        "delivery_plugin",
    ),
    "pyspark": ("spark_jobs", "host.java.lock_jars"),
    "great_expectations": ("expectations.library",),
    "confluent_kafka": (
        "load",
        "applications",
        "cluster",
        "faults.administration",
        "settlement.acked_writer",
        "planning.own_settings.librdkafka",
        "host.librdkafka.wheels",
    ),
    "bokeh": ("reporting",),
    "duckdb": ("spark_jobs.checks.second_opinion", "audit.matching"),
    "jinja2": ("reporting", "expectations.data_docs"),
    "kafka": ("cluster.protocol.messages", "cluster.protocol.authentication"),
    "cryptography": ("cluster.security.stores",),
}
"""Maps each heavy dependency to its import points: the only modules or rooms (packages) that may import it."""

IMPORT_POINTS_OF_PAGES = {"contract": ("reporting.price.price",), "verdict": (), "advice": ()}
"""Maps a room that decides to the only modules of `reporting` that may import it. Every other page renders what the
verdict says. Prices are compared with what settings promise, and there is no verdict on that."""

CONCEPTS = (
    Concept(
        "anomalies",
        {
            spelling: anomaly.value
            for anomaly in Anomaly
            for spelling in (anomaly.value, column(anomaly), f"Anomaly.{anomaly.name}")
        },
    ),
    Concept("actions", {action: action for action in ACTS}, dicts_only=True),
    Concept("steps", {step: step for step in STEPS}, dicts_only=True),
    Concept("disturbances", {kind: kind for kind in DISTURBANCES}, dicts_only=True),
    Concept("claims", {claim: claim for claim in CLAIMS}, dicts_only=True),
)
"""The concepts whose tables must be complete. For concepts with `dicts_only`, only dicts count as tables, because a
list of only some actions, steps or disturbances is normal."""

MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 50
"""Lines of code. Docstrings, comments and blank lines are free: who must save lines saves explanations first."""

LONG_FILES_OF_TESTS = ["tests.support.settings_files", "tests.support.sound_runs"]
"""A simulation that is one concept, and a table of files as people have them."""


def test_no_room_uses_what_stands_above_it() -> None:
    assert list(imports_against_the_table(PACKAGES, MAY_USE)) == []


def test_no_folder_of_spark_jobs_uses_what_stands_above_it() -> None:
    assert list(imports_against_the_table([ROOT / "spark_jobs"], FLOORS_OF_SPARK, "spark_jobs")) == []


@pytest.mark.parametrize(
    ("table", "top"), [(MAY_USE, "command_line"), (MAY_USE, "verify_delivery"), (FLOORS_OF_SPARK, "reconcile")]
)
def test_the_table_itself_has_no_circle(table: dict[str, tuple[str, ...]], top: str) -> None:
    def below(room: str, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for used in {name.split(".")[0] for name in table[room]}:
            if used in above:
                yield (*above, used)
            else:
                yield from below(used, (*above, used))

    assert [*below(top, (top,))] == []


def test_the_page_on_the_house_shows_its_floors_and_explains_every_room() -> None:
    page = (ROOT / "docs/how-it-is-built.md").read_text()
    assert f"```text\n{picture(MAY_USE)}\n```" in page, f"the picture is out of date; it is now:\n{picture(MAY_USE)}"
    explained = {room for line in page.splitlines() if line.startswith("| `") for room in re.findall(r"`(\w+)`", line)}
    assert MAY_USE.keys() - explained == set()


def test_the_page_on_the_house_names_only_files_that_there_are() -> None:
    page = (ROOT / "docs/how-it-is-built.md").read_text()
    missing = []
    for line in page.split("## The way of one record")[1].split("## When a pipeline is red")[0].splitlines():
        folder = ""
        for name in re.findall(r"`([\w/]+\.py)`", line):
            folder = name.rpartition("/")[0] or folder
            file = Path(folder) / Path(name).name
            missing += [] if any((above / file).exists() for above in (LIBRARY, ROOT)) else [str(file)]
    assert missing == []


def test_a_room_stands_above_all_that_it_uses() -> None:
    assert picture({"top": ("left", "low.part"), "left": ("low",), "low": ()}) == " 3  top\n 2  left\n 1  low"


def test_no_module_imports_itself_around_a_corner() -> None:
    assert list(import_circles(PACKAGES)) == []


def test_every_heavy_dependency_has_its_import_points() -> None:
    assert list(imports_elsewhere(PACKAGES, IMPORT_POINTS)) == []


def test_pages_decide_nothing_but_what_a_price_buys() -> None:
    assert list(imports_elsewhere([LIBRARY / "reporting"], IMPORT_POINTS_OF_PAGES, LIBRARY.name)) == []


def test_files_and_functions_stay_small() -> None:
    assert list(long_files(PACKAGES, MOST_LINES_OF_A_FILE)) == []
    assert list(long_functions(PACKAGES, MOST_LINES_OF_A_FUNCTION)) == []


def test_files_of_tests_stay_small_and_are_named_by_their_subjects() -> None:
    assert [line.split(":")[0] for line in long_files([ROOT / "tests"], MOST_LINES_OF_A_FILE)] == LONG_FILES_OF_TESTS
    by_origin = [file.name for file in (ROOT / "tests").rglob("test_*.py") if "edges" in file.name]
    assert by_origin == [], "a test stands in the file of what it is about, however it came about"


def test_every_table_of_a_concept_is_whole_or_says_why_not() -> None:
    assert list(partial_tables((*PACKAGES, ROOT / "docs" / "generate"), CONCEPTS)) == []


def test_names_are_nouns_of_the_field() -> None:
    assert list(private_names((*PACKAGES, ROOT / "docs" / "generate", ROOT / "bench"))) == []


def test_every_test_of_every_tier_imports_what_there_is() -> None:
    readers = [folder for folder in (ROOT / "tests", ROOT / "bench", ROOT / "docs") if folder.is_dir()]
    support = ROOT / "tests" / "support"
    assert list(stale_imports(readers, (*PACKAGES, support, *readers))) == []


def test_every_room_says_what_it_owns_what_it_may_use_and_where_it_is_weak() -> None:
    rooms = MAY_USE.keys() - WITHOUT_INTRODUCTION
    folders = {room: ROOT / room if (ROOT / room).is_dir() else LIBRARY / room for room in sorted(rooms)}
    assert list(silent_rooms(folders, MAY_USE)) == []


def test_every_folder_of_spark_jobs_says_what_it_owns_what_it_may_use_and_where_it_is_weak() -> None:
    folders = {folder.name: folder for folder in (ROOT / "spark_jobs").iterdir() if any(folder.glob("*.py"))}
    assert folders.keys() < FLOORS_OF_SPARK.keys()
    assert list(silent_rooms(folders, FLOORS_OF_SPARK)) == []


def test_every_folder_of_the_library_is_a_room_that_the_table_knows() -> None:
    folders = {file.parent.name for file in LIBRARY.glob("*/__init__.py")}
    assert folders <= MAY_USE.keys()


def tree(folder: Path, files: dict[str, str]) -> list[Path]:
    """Writes a tiny library below `folder`, and returns its folder in a list. `files` holds the text of each module, by
    path without `.py`."""
    for name, text in files.items():
        file = folder / "delivery_verifier" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return [folder / "delivery_verifier"]


TABLE = {"reporting": ("load.layout", "model"), "load": ("model",), "model": ()}

KINDS = [
    Concept("kinds", {spelling: kind for kind in "ABC" for spelling in (kind, kind.lower(), f"Kind.{kind}")}),
]

BROKEN: dict[str, tuple[dict[str, str], Callable[[list[Path]], Iterator[str]], str]] = {
    "an arrow that runs up": (
        {"model/words": "from delivery_verifier.reporting.html import page", "reporting/html": ""},
        lambda packages: imports_against_the_table(packages, TABLE),
        "delivery_verifier.model.words:1: model may not use reporting.html.page",
    ),
    "an arrow inside a function": (
        {"model/words": "def draw():\n    from delivery_verifier import reporting", "reporting/html": ""},
        lambda packages: imports_against_the_table(packages, TABLE),
        "delivery_verifier.model.words:2: model may not use reporting",
    ),
    "a part of a room that is not open": (
        {"reporting/html": "from delivery_verifier.load import layout, pool", "load/layout": "", "load/pool": ""},
        lambda packages: imports_against_the_table(packages, TABLE),
        "delivery_verifier.reporting.html:1: reporting may not use load.pool",
    ),
    "a room that nobody entered": (
        {"attic/box": ""},
        lambda packages: imports_against_the_table(packages, TABLE),
        "delivery_verifier.attic.box: the table of rooms does not know attic",
    ),
    "an arrow that runs up in a package beside the library": (
        {"reading/a": "from delivery_verifier.matching import b", "matching/b": ""},
        lambda packages: imports_against_the_table(
            packages, {"delivery_verifier": (), "matching": ("reading",), "reading": ()}, "delivery_verifier"
        ),
        "delivery_verifier.reading.a:1: reading may not use matching.b",
    ),
    "a circle": (
        {"load/a": "from delivery_verifier.load import b", "load/b": "import delivery_verifier.load.a"},
        import_circles,
        "delivery_verifier.load.a -> delivery_verifier.load.b -> delivery_verifier.load.a",
    ),
    "a second import point": (
        {"reporting/html": "import airflow.sdk", "load/tasks": "import airflow.sdk"},
        lambda packages: imports_elsewhere(packages, {"airflow": ("load",)}),
        "delivery_verifier.reporting.html:1: airflow is imported beside its import points",
    ),
    "a page that judges": (
        {"reporting/html": "from delivery_verifier.verdict.judge import judge", "reporting/price/price": ""},
        lambda packages: imports_elsewhere([packages[0] / "reporting"], IMPORT_POINTS_OF_PAGES, "delivery_verifier"),
        "reporting.html:1: verdict is imported beside its import points",
    ),
    "a page that reads the contract": (
        {
            "reporting/price/price": "import delivery_verifier.contract.settings",
            "reporting/a": "from delivery_verifier import contract",
        },
        lambda packages: imports_elsewhere([packages[0] / "reporting"], IMPORT_POINTS_OF_PAGES, "delivery_verifier"),
        "reporting.a:1: contract is imported beside its import points",
    ),
    "an import of what is gone": (
        {"load/a": "from delivery_verifier.load.b import x, y\nimport os\n", "load/b": "x = 1\n"},
        lambda packages: stale_imports(packages, packages),
        "delivery_verifier.load.a:1: there is no delivery_verifier.load.b.y",
    ),
    "an import of a module that is gone": (
        {"load/a": "def f():\n    import delivery_verifier.load.c\n    import os\n"},
        lambda packages: stale_imports(packages, packages),
        "delivery_verifier.load.a:2: there is no delivery_verifier.load.c",
    ),
    "a long file": (
        {"load/long": "x = 1\n" * 11, "load/short": "x = 1\n" * 10},
        lambda packages: long_files(packages, 10),
        "delivery_verifier.load.long: 11 lines of code",
    ),
    "a long function": (
        {"load/long": "def f():\n" + "    x = 1\n" * 10 + "\n\ndef g():\n" + "    x = 1\n" * 9},
        lambda packages: long_functions(packages, 10),
        "delivery_verifier.load.long:1: f has 11 lines of code",
    ),
    "a private variable": (
        {"load/a": "for one in []:\n    item = one\n", "load/b": "class Item:\n    found: int\n"},
        private_names,
        "delivery_verifier.load.a:1: one is a private name",
    ),
    "a private parameter": (
        {"load/a": "def count(items, *, at):\n    return [item for item in items]\n"},
        private_names,
        "delivery_verifier.load.a:1: at is a private name",
    ),
    "a private error": (
        {"load/a": "try:\n    pass\nexcept ValueError as it:\n    pass\n"},
        private_names,
        "delivery_verifier.load.a:3: it is a private name",
    ),
    "a private method": (
        {"load/a": "class Item:\n    def of(self):\n        return self\n"},
        private_names,
        "delivery_verifier.load.a:2: of is a private name",
    ),
    "a function named by a participle": (
        {"load/a": "def _made_once():\n    return _made_up\n\n\n_made_up = 1\n"},
        private_names,
        "delivery_verifier.load.a:1: _made_once is a private name",
    ),
    "a room without a word": (
        {"load/__init__": '"""Load.\n\nOwns: all.\nMay use: model.\n"""'},
        lambda packages: silent_rooms({"load": packages[0] / "load"}, TABLE),
        "load: its __init__ does not say Weak spot:",
    ),
    "a room that says what is not so": (
        {"load/__init__": '"""Load.\n\nOwns: all.\nMay use: model,\n    reporting.\nWeak spot: none.\n"""'},
        lambda packages: silent_rooms({"load": packages[0] / "load"}, TABLE),
        "load: its __init__ says it may use ['model', 'reporting']; the table says ['model']",
    ),
    "a table that forgot a member": (
        {"reporting/words": 'WORDS = {Kind.A: "a", Kind.B: "b"}\nWHOLE = {Kind.A: 1, Kind.B: 2, Kind.C: 3}\n'},
        lambda packages: partial_tables(packages, KINDS),
        "delivery_verifier.reporting.words:1: a table of kinds lacks C",
    ),
    "a table of columns that forgot a member": (
        {"reporting/words": "def f(x):\n    return x in ('a', 'C')\n\n\nONE = ('a', 'other')\n"},
        lambda packages: partial_tables(packages, KINDS),
        "delivery_verifier.reporting.words:2: a table of kinds lacks B",
    ),
    "a table whose reason is empty": (
        {"reporting/words": "SOME = subset(' ', ('a', 'b'))\nREASONED = subset('c is never shown', ('a', 'b'))\n"},
        lambda packages: partial_tables(packages, KINDS),
        "delivery_verifier.reporting.words:1: a table of kinds lacks C",
    ),
    "a dict that forgot a member": (
        {"reporting/words": "LIST = ['x', 'y']\nDICT = {'x': 1, 'y': 2}\n"},
        lambda packages: partial_tables(packages, [Concept("letters", {"x": "x", "y": "y", "z": "z"}, True)]),
        "delivery_verifier.reporting.words:2: a table of letters lacks z",
    ),
}


@pytest.mark.parametrize("offence", BROKEN)
def test_each_rule_is_red_on_its_broken_tree(offence: str, tmp_path: Path) -> None:
    files, rule, line = BROKEN[offence]
    assert list(rule(tree(tmp_path, files))) == [line]


def test_words_make_no_file_and_no_function_long(tmp_path: Path) -> None:
    text = '"""A module.\n\nOf three lines."""\n\n# why\nx = 1\n"""What x is."""\n\n\n'
    text += 'def f():\n    """A function.\n    Of two lines."""\n\n    # why\n    return """a\n\nb"""\n'
    packages = tree(tmp_path, {"load/words": text})
    assert list(long_files(packages, 4)) == list(long_functions(packages, 3)) == []
    assert list(long_files(packages, 3)) == ["delivery_verifier.load.words: 4 lines of code"]
    assert list(long_functions(packages, 2)) == ["delivery_verifier.load.words:10: f has 3 lines of code"]


def test_no_rule_is_red_on_a_sound_tree(tmp_path: Path) -> None:
    packages = tree(
        tmp_path,
        {
            "model/words": "WORDS = {Kind.A: 1, Kind.B: 2, Kind.C: 3}",
            "reporting/__init__": '"""Reporting.\n\nOwns: all.\nMay use: load.layout, model.\nWeak spot: none.\n"""',
            "reporting/html": "from typing import TYPE_CHECKING\nfrom delivery_verifier.load.layout import x\n"
            "if TYPE_CHECKING:\n    import airflow\n",
            "load/layout": "import msgspec\nfrom delivery_verifier import model\n",
        },
    )
    assert list(imports_against_the_table(packages, TABLE)) == []
    assert list(import_circles(packages)) == []
    assert list(imports_elsewhere(packages, {"airflow": ()})) == []
    assert list(silent_rooms({"reporting": packages[0] / "reporting"}, TABLE)) == []
    assert list(partial_tables(packages, KINDS)) == []
    assert list(private_names(packages)) == []

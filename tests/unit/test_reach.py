"""A change is tried by the tests that import it, directly or through other modules, processes and data files."""

from __future__ import annotations

import subprocess
from fnmatch import fnmatch
from pathlib import Path

import gate
import pytest
import reach

ROOT = gate.HERE.parent
LIBRARY = "plugins/delivery_verifier"


@pytest.fixture(scope="module")
def imports() -> dict[str, list[str]]:
    return reach.graph()


def test_distances_are_numbers_of_imports() -> None:
    imports = {"a": ["b"], "b": ["c", "d"], "d": ["a"], "e": ["d"], "f": []}
    assert reach.distances(["c"], imports) == {"c": 0, "b": 1, "a": 2, "d": 3, "e": 4}
    assert reach.distances(["d"], imports) == {"d": 0, "b": 1, "e": 1, "a": 2}


@pytest.mark.parametrize(
    ("changed", "reached"),
    [
        (f"{LIBRARY}/contract/power.py", "unit/contract/test_power.py"),
        (f"{LIBRARY}/reporting/templates/verdict.html.j2", "unit/reporting/test_report.py"),
        (f"{LIBRARY}/host/java/jars.lock.json", "airflow/test_form.py"),
        ("expectations/guarantee.json", "quality/test_validation.py"),
        ("spark_jobs/matching/match.py", "quality/test_every_planted_anomaly_is_found.py"),
        ("dags/verify_delivery.py", "airflow/test_dag.py"),
        ("docker-compose.yml", "unit/test_compose_files.py"),
        ("docs/tour.md", "unit/test_prose.py"),
        ("tests/kafka/conftest.py", "kafka/test_outages.py"),
        ("tests/kafka/conftest.py", "kafka/shared_cluster/test_faults.py"),
        ("tests/support/kept_clusters.py", "kafka/test_agent.py"),
        ("tests/spark/test_invariants.py", "spark/test_invariants.py"),
        ("tests/gate.toml", "unit/test_gate.py"),
    ],
)
def test_a_change_reaches_the_tests_that_use_it(changed: str, reached: str, imports: dict[str, list[str]]) -> None:
    assert reached in reach.modules([changed], imports)


def test_a_module_that_runs_as_a_process_is_imported_by_who_starts_it(imports: dict[str, list[str]]) -> None:
    found = reach.distances([f"{LIBRARY}/cluster/proxy/server.py"], imports)
    assert found[f"{LIBRARY}/cluster/embedded/node_processes.py"] == 1
    found = reach.distances([f"{LIBRARY}/load/producer.py"], imports)
    assert found[f"{LIBRARY}/load/producer_process.py"] == 1


def test_a_change_of_one_room_does_not_reach_the_tests_of_another(imports: dict[str, list[str]]) -> None:
    found = reach.modules([f"{LIBRARY}/reporting/junit.py"], imports)
    assert "unit/reporting/test_junit.py" in found and not [name for name in found if name.startswith("unit/contract/")]
    assert not [name for name in found if name.startswith("kafka/")]


def test_every_module_of_the_product_is_reached_by_a_unit_test(imports: dict[str, list[str]]) -> None:
    product = [file for file in imports if file.startswith((LIBRARY, "spark_jobs/", "expectations/"))]
    alone = [file for file in product if not any(name.startswith("unit/") for name in reach.modules([file], imports))]
    assert len(product) > 400 and {*alone} <= {f"{LIBRARY}/__main__.py"}


def test_every_file_that_is_no_module_is_read_by_a_test_or_known_to_be_read_by_none() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=True, text=True).stdout.split(
        "\n"
    )
    known = [*reach.DATA, *reach.NOT_TESTED, *reach.EVERYTHING]
    strange = [
        file for file in tracked if not file.endswith((".py", ".md", "")) and not any(fnmatch(file, at) for at in known)
    ]
    assert strange == [], "add them to reach.DATA with the module that reads them"
    for readers in reach.DATA.values():
        assert all((ROOT / reader).is_file() for reader in readers)


def test_a_commit_that_git_does_not_know_is_refused_with_the_remedy() -> None:
    with pytest.raises(SystemExit, match=r"CHANGED names no commit\. Say CHANGED=origin/main"):
        reach.changed_files("no-such-commit")


def test_changed_files_are_those_of_the_work_tree_too(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    (tmp_path / "kept").write_text("")
    (tmp_path / "old").write_text("")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "old").write_text("changed")
    (tmp_path / "new").write_text("")
    assert reach.changed_files("HEAD", root=tmp_path) == ["new", "old"]


def test_only_capabilities_of_touched_rooms_are_tried() -> None:
    every = gate.read().capability
    touched = reach.capabilities([f"{LIBRARY}/load/producer.py", "docs/tour.md"], every)
    assert touched and all({"load", "*"} & {*one.rooms} for one in touched) and len(touched) < len(every) / 2
    assert reach.capabilities(["docs/tour.md", "tests/unit/test_gate.py"], every) == []

"""The names that the verifier takes for Spring Boot's are those that Boot's own metadata list."""

from __future__ import annotations

import pytest
from support.spring_metadata import bound_names

from delivery_verifier.host.java import jars
from delivery_verifier.planning.own_settings import spring_names

pytestmark = pytest.mark.slow  # may fetch two megabytes
MAPS = {"properties"}
TREES = {"security", "ssl"}


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("producer", {*spring_names.PRODUCER, *MAPS, *TREES}),
        ("consumer", {*spring_names.CONSUMER, *MAPS, *TREES}),
        ("listener", spring_names.LISTENER),
        ("template", spring_names.TEMPLATE),
    ],
)
def test_the_names_of_a_section_are_those_of_boots_metadata(section: str, names: set[str]) -> None:
    below = (name.removeprefix(f"{section}.") for name in bound_names() if name.startswith(f"{section}."))
    assert {name.split(".")[0] for name in below} == names


def test_the_sections_are_those_of_boots_metadata() -> None:
    known = {name.split(".")[0] for name in bound_names()}
    assert known == spring_names.SECTIONS | {"bootstrap-servers", "client-id"}


def test_the_table_names_the_jars_that_are_compared() -> None:
    assert {entry["path"] for entry in jars._lock()["spring-boot"]} == set(spring_names.METADATA)

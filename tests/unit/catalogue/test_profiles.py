"""Tests of where the catalogue uses its profiles: what a profile says of itself, and that it is true."""

from __future__ import annotations

import pytest

from delivery_verifier.catalogue import ENTRIES, PRICES
from delivery_verifier.catalogue.profiles import PRICED, PROFILES, PUBLISHED, STRONG, WEAKNESSES
from delivery_verifier.contract.guarantees import matrix
from delivery_verifier.contract.settings import Settings

EVERYDAY = [entry for entry in ENTRIES.values() if "everyday" in entry.tags]
CLASSES = {"none", "leadership change", "crash", "freeze"}
"""The classes of the everyday faults."""


def test_every_profile_has_exactly_one_everyday_role() -> None:
    assert sorted([*STRONG, *WEAKNESSES]) == sorted(PROFILES)
    assert EVERYDAY
    for entry in EVERYDAY:
        roles = [(arm.name, arm.role, arm.claim) for arm in entry.arms]
        strong = [(name, "subject", "exactly_once") for name in STRONG]
        assert sorted(roles) == sorted([*strong, *((name, "control", claim) for name, claim in WEAKNESSES.items())])


@pytest.mark.parametrize("name", PROFILES)
def test_the_contract_says_the_same_of_the_strength_of_a_profile(name: str) -> None:
    rows = [row for row in matrix(Settings.of_profile(PROFILES[name])) if row.fault_class in CLASSES]
    assert len(rows) == len(CLASSES)
    for claim in ("at_least_once", "at_most_once", "ordered"):
        is_kept = all(row.guarantees[claim] for row in rows)
        assert is_kept or name not in STRONG, claim
        assert not (is_kept and WEAKNESSES.get(name) == claim), "not weak there"


def test_what_is_priced_has_its_entries_and_what_is_published_is_priced() -> None:
    assert {entry.arms[0].name for entry in PRICES.values()} == set(PRICED)
    assert set(PUBLISHED) <= set(PRICED)

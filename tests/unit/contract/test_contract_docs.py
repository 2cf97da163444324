"""Tests that the pages on the contract and on the anomalies agree with the code."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from delivery_verifier.contract.rules import RULES
from delivery_verifier.contract.strength import STRENGTH_ORDERS
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import DISTURBANCES, DisturbanceKind
from docs.generate.contract import document, main

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_of_the_contract_is_what_the_rules_generate() -> None:
    assert (DOCS / "reference/contract.md").read_text() == document(), "run `python -m docs.generate.contract`"


def test_every_rule_stands_on_the_page(tmp_path: Path) -> None:
    main([str(tmp_path / "page.md")])
    page = (tmp_path / "page.md").read_text()
    assert all(f"`{rule.id}`" in page and rule.sentence in page for rule in RULES)


def test_every_anomaly_has_its_section_in_both_pages() -> None:
    for name in ("reference/contract.md", "anomalies.md"):
        sections = [
            line.removeprefix("## ") for line in (DOCS / name).read_text().splitlines() if line.startswith("## ")
        ]
        assert [section for section in sections if section in Anomaly.__members__] == [kind.value for kind in Anomaly]


def test_every_kind_of_disturbance_is_explained_and_every_order_stands_on_the_page() -> None:
    assert set(DISTURBANCES) == set(get_args(DisturbanceKind))
    page = document()
    assert all(f"| `{kind}` |" in page for kind in DISTURBANCES)
    assert all(f"| {order.shown} | {order.sentence} |" in page for order in STRENGTH_ORDERS)

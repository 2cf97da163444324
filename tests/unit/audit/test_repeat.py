"""Tests of the command that repeats an audit: as it was typed, without the name of the run."""

from __future__ import annotations

import sys

import pytest

from delivery_verifier.command_line import audit


@pytest.mark.parametrize("named", [["--run-id", "orders"], ["--run-id=orders"], []])
def test_the_command_loses_the_name_of_the_run_and_nothing_of_the_same_name(
    monkeypatch: pytest.MonkeyPatch, named: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kdv", "audit", "--topic", "orders", *named, "--ledger", "orders"])
    assert audit._command() == "kdv audit --topic orders --ledger orders"

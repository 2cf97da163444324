"""Random histories with random columns missing, against the oracle of what can be known of them. test_matching.py plays
the first few of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.matched_ledgers import check_random_history

HISTORIES, CHUNK = 500, 25


@pytest.mark.slow
@pytest.mark.parametrize("first", range(40, HISTORIES + 40, CHUNK))
def test_many_random_histories_show_what_can_be_known_of_them_and_nothing_else(tmp_path: Path, first: int) -> None:
    for seed in range(first, min(first + CHUNK, HISTORIES + 40)):
        check_random_history(tmp_path, seed)

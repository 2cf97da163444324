"""Tests of the watermarks that are noted while a user application runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from delivery_verifier.applications.watermarks import Watermark, Watermarks, highest_watermarks


def test_the_highest_of_each_partition_and_epoch_is_kept_whoever_noted_it(tmp_path: Path) -> None:
    folder = tmp_path / "application"
    assert highest_watermarks(folder) == []
    marks, others = Watermarks(folder), Watermarks(folder)
    marks.note([Watermark(0, 1, 0)])
    assert highest_watermarks(folder) == [], "nothing can be cut off an empty log"
    marks.note([Watermark(0, 1, 7), Watermark(1, 1, 4)])
    others.note([Watermark(0, 1, 5), Watermark(0, 2, 3), Watermark(1, -1, 9)])
    marks.note([Watermark(0, 1, 6), Watermark(1, 1, 4)])
    expected = [Watermark(0, 1, 7), Watermark(0, 2, 3), Watermark(1, -1, 9), Watermark(1, 1, 4)]
    assert highest_watermarks(folder) == expected
    assert len((folder / "watermarks").read_text().splitlines()) == 5, "only what is higher is written"


def test_a_file_that_was_changed_is_no_evidence(tmp_path: Path) -> None:
    Watermarks(tmp_path).note([Watermark(0, 1, 7)])
    (tmp_path / "watermarks").write_text("0 1\n")
    with pytest.raises(ValueError, match="unpack"):
        highest_watermarks(tmp_path)

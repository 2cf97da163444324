"""The wire: an answer that makes no sense must not end the observer, whose silence would look like a quiet cluster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch

from delivery_verifier.cluster import wire


@given(st.binary(max_size=200) | st.lists(st.integers(0, 3), max_size=120).map(bytes))
def test_any_answer_is_understood_or_an_oserror(answer: bytes) -> None:
    with MonkeyPatch.context() as patch:
        patch.setattr(wire, "_call", lambda *_: answer)
        try:
            wire.describe_partitions(1, ["topic"])
        except OSError:
            return

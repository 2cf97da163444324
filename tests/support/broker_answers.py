"""Answers of brokers that a test makes up: no request leaves this process."""

from __future__ import annotations

from collections.abc import Callable

from pytest import MonkeyPatch

from delivery_verifier.cluster.protocol import asking
from delivery_verifier.cluster.protocol.messages import api_key
from delivery_verifier.cluster.protocol.versions import SPOKEN

Answering = Callable[[bytes], bytes]
"""Returns the answer to a request."""


def answered(patch: MonkeyPatch, answer: Answering | bytes, without: tuple[str, ...] = ()) -> None:
    """Lets `answer` answer all requests that are sent by `asking.call`. The broker takes the lowest version that is
    spoken of each request, and none of the requests `without`."""
    taken = {api_key(name): (low, low) for name, (low, _) in SPOKEN.items() if name not in without}
    patch.setattr(asking, "ranges", lambda *_: taken)
    patch.setattr(asking, "call", lambda _, request, __: answer if isinstance(answer, bytes) else answer(request))

"""Topics that somebody else altered: derived from observations alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from delivery_verifier.contract.observer import OBSERVER_LAG_US, in_window
from delivery_verifier.model.history import Disturbance, Injection, Observation


def altered_by_others(observations: Iterable[Observation], injected: Iterable[Injection]) -> Iterator[Disturbance]:
    """Yields a disturbance `topic_altered` for each setting of a topic that was seen with another value than before,
    unless an injection of the run gave it this value. All are unplanned."""
    causes, values = list(injected), dict[tuple[str, str], str]()
    for now in observations:
        if now.kind != "setting":
            continue
        before = values.setdefault((now.topic, now.setting), now.value)
        values[now.topic, now.setting] = now.value
        if before != now.value and not any(_gave(cause, now) for cause in causes):
            yield Disturbance(
                kind="topic_altered",
                at_us=now.at_us,
                planned=False,
                topic=now.topic,
                setting=now.setting,
                value=now.value.lower(),
                detail=f"somebody else set {now.setting} of {now.topic} from {before} to {now.value}",
                weakens_since_us=now.at_us - 2 * OBSERVER_LAG_US,  # it is looked at each second
            )


def _gave(cause: Injection, now: Observation) -> bool:
    options = cause.options
    is_same = options.get("setting") == now.setting and str(options.get("value")).lower() == now.value.lower()
    return is_same and now.topic in cause.hit and in_window(cause, now.at_us)

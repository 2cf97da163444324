"""Settings and disturbances on which the contract rules."""

from __future__ import annotations

from typing import Any

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.history import Disturbance, DisturbanceKind


def settings(name: str, **changes: Any) -> Settings:
    base = Settings.of_profile(PROFILES[name])
    return Settings(**({field: getattr(base, field) for field in Settings.__slots__} | changes))


def disturbance(kind: DisturbanceKind, planned: bool = True, **more: Any) -> Disturbance:
    return Disturbance(kind=kind, at_us=1, planned=planned, **more)


def altered(setting: str, value: str, planned: bool = True) -> Disturbance:
    return disturbance("topic_altered", planned, setting=setting, value=value)

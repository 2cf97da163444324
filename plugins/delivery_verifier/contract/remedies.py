"""The remedies: which other settings would have kept a promise under the disturbances of a run.

A remedy changes one setting, or two settings if no single change is enough. Remedies come from the contract alone: a
change is a remedy only if the contract forbids every anomaly in question under the given disturbances.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from msgspec import Struct

from delivery_verifier.contract.alternatives import ALTERNATIVES
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance

Changes = Mapping[str, Mapping[str, Any]]
"""Changes of settings: maps the text that names a change to the changed fields of Settings, with their new values."""
WEAKER_CLUSTERS = ("no eligible leader replicas",)
"""The names of the changes in ALTERNATIVES that change the cluster, and no setting of a client or topic. They only make
the cluster weaker, so they are no remedies."""
MOST_IN_FLIGHT = 5
"""The greatest number of requests in flight that an idempotent producer allows."""


class Remedy(Struct, frozen=True, kw_only=True):
    """A change of settings that would have kept a promise. It consists of one or two changes (see `remedies`).
    `changes`: the texts that name these changes. `settings`: the settings after the change."""

    changes: tuple[str, ...]
    settings: Settings


class Loosening(Struct, frozen=True, kw_only=True):
    """A change of one setting that would have given up a promise.

    * `change`: the text that names the change.
    * `permits`: maps each anomaly that the change would have permitted to the sentence of the rule that permits it.
    * `settings`: the settings after the change.
    """

    change: str
    permits: dict[Anomaly, str]
    settings: Settings


def remedies(
    settings: Settings,
    forbidden: Collection[Anomaly],
    histories: Sequence[Sequence[Disturbance]],
    more: Changes | None = None,
) -> list[Remedy]:
    """Returns the changes of `settings` after which the contract forbids every anomaly in `forbidden`.

    `histories` has lists of disturbances. For example, one list holds the observed disturbances, and another list the
    disturbances that the fault plan causes. The contract must forbid the anomalies under each list. `more` has changes
    to try in addition to those in ALTERNATIVES. Pairs of changes are tried only if no single change is enough. Returns
    an empty list if `forbidden` or `histories` is empty.
    """
    if not forbidden or not histories:
        return []
    changes = {**_changes(settings), **(more or {})}
    for size in (1, 2):
        enough = [
            Remedy(changes=names, settings=changed)
            for names, changed in _changed(settings, changes, size)
            if all(_forbids(changed, history, forbidden) for history in histories)
        ]
        if enough:
            return enough
    return []


def loosenings(
    settings: Settings, forbidden: Collection[Anomaly], histories: Sequence[Sequence[Disturbance]]
) -> list[Loosening]:
    """Returns the single changes of `settings` after which the contract permits an anomaly in `forbidden`.

    A change counts only if two conditions hold for the anomaly under each list of disturbances in `histories`. The
    contract forbids it for `settings`. The contract permits it for the changed settings.
    """
    promised = {
        anomaly for anomaly in forbidden if all(_forbids(settings, history, [anomaly]) for history in histories)
    }
    loose = []
    for (name,), changed in _changed(settings, _changes(settings), 1):
        rulings = [contract(changed, history) for history in histories]
        permits = {
            anomaly: rulings[0][anomaly].sentence
            for anomaly in Anomaly
            if anomaly in promised and rulings and all(ruled[anomaly].ruling == "PERMITTED" for ruled in rulings)
        }
        if permits:
            loose.append(Loosening(change=name, permits=permits, settings=changed))
    return loose


def _changes(settings: Settings) -> dict[str, Mapping[str, Any]]:
    """Returns the changes in ALTERNATIVES that have an effect on `settings`. Leaves out the changes in WEAKER_CLUSTERS,
    because they change the cluster, and not a client or a topic."""
    return {
        name: fields
        for name, fields in ALTERNATIVES.items()
        if name not in WEAKER_CLUSTERS and replace(settings, **fields) != settings
    }


def _changed(settings: Settings, changes: Changes, size: int) -> Iterator[tuple[tuple[str, ...], Settings]]:
    """Yields every combination of `size` changes: the names of the changes, and `settings` after them. Leaves out
    combinations that clients or topics refuse, and combinations in which two changes touch the same field."""
    for names in combinations(changes, size):
        fields = [field for name in names for field in changes[name]]
        changed = replace(settings, **{field: value for name in names for field, value in changes[name].items()})
        if len(set(fields)) == len(fields) and _is_accepted(changed):
            yield names, changed


def _is_accepted(settings: Settings) -> bool:
    """Returns whether clients and topics accept `settings`. `settings` must be accepted settings with some fields
    changed."""
    if settings.transactional_id and not settings.enable_idempotence:
        return False
    if settings.enable_idempotence and (
        settings.acks != "all" or not settings.retries or settings.max_in_flight > MOST_IN_FLIGHT
    ):
        return False
    return settings.min_insync_replicas <= settings.replication_factor


def _forbids(settings: Settings, history: Sequence[Disturbance], anomalies: Collection[Anomaly]) -> bool:
    rulings = contract(settings, history)
    return all(rulings[anomaly].ruling == "FORBIDDEN" for anomaly in anomalies)

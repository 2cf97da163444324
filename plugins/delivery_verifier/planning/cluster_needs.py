"""What a run needs of a cluster that somebody else runs: rights, topics, and what it sends, leaves and removes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.check import rights
from delivery_verifier.cluster.check.rights import Right, Wanted
from delivery_verifier.cluster.external.commands import Commands
from delivery_verifier.model.act import Act
from delivery_verifier.model.application import Application
from delivery_verifier.model.operator_commands import lacking
from delivery_verifier.model.scenario import Scenario

MOST_RATE, MOST_BYTES = 2_000, 1_000_000_000
"""The most records per second and arm, and the most bytes with all replicas, that a run sends to a cluster that
somebody else runs. They are safe for a cluster that also works for others."""
_PLAIN = (rights.CREATE, rights.WRITE, rights.READ, rights.DESCRIBE_CONFIGS, rights.DELETE)
_ELECTIONS, _CHANGES = ("elect_preferred", "elect_unclean"), ("alter_topic",)
"""The actions that ask the cluster for a leader of a topic of the run, and for another setting of such a topic."""
_HARMLESS_TO_BROKERS = ("producer", "application")
"""The targets of actions (`Act.whom`) that touch only processes of this host."""


class Needs(NamedTuple):
    """What a run needs, creates and sends.

    * `rights`: the rights that the run needs. `wishes`: those without which it only knows less.
    * `topics`: the names of its topics. `replicas`: the brokers that it needs at least.
    * `rate`: the records per second that the busiest arm sends; None: as many as it can. `bytes_sent`: the least number
      of bytes that are written, in all replicas.
    * `impossible`: the actions of the fault plan that cannot be done there, in words. `commands`: the name of the
      operator's commands, and `ordered`: the actions that they order.
    """

    rights: tuple[Right, ...]
    wishes: tuple[Right, ...]
    topics: tuple[str, ...]
    replicas: int
    rate: float | None
    records: int
    bytes_sent: int
    impossible: tuple[str, ...]
    commands: str = ""
    ordered: tuple[str, ...] = ()


def needs(scenario: Scenario, commands: Commands | None = None) -> Needs:
    """Returns what a run of `scenario` needs of a cluster that somebody else runs. `commands` are those of the operator
    by which brokers are broken there."""
    needed = [*_PLAIN]
    if _writes_transactions(scenario):
        needed += [*_transactional_ids(scenario), rights.SEE_TRANSACTIONS]
    if scenario.applied:
        needed += [rights.READ_GROUPS, rights.DELETE_GROUPS, rights.SEE_COMMITS]
    acts = [step.act for step in scenario.fault.steps]
    needed += [rights.ALTER_CLUSTER for act in acts if act.name in _ELECTIONS]
    needed += [rights.ALTER_CONFIGS for act in acts if act.name in _CHANGES]
    operator = None if commands is None else commands.operator
    load, by_command = scenario.load, [step for step in scenario.fault.steps if not _is_possible(step.act)]
    records = sum(max(arm.records, int((load.rate or 0) * load.duration_s)) for arm in scenario.loaded)
    return Needs(
        rights=tuple(dict.fromkeys(needed)),
        wishes=(rights.SEE_SETTINGS,),
        topics=(*(arm.topic_name for arm in scenario.arms), *topics.output_topics(scenario)),
        replicas=load.replication_factor,
        rate=_rate(scenario),
        records=records,
        bytes_sent=records * load.payload_bytes * load.replication_factor,
        impossible=tuple(dict.fromkeys(lack for step in by_command if (lack := lacking(operator, step)))),
        commands="" if commands is None else commands.described.name,
        ordered=tuple(dict.fromkeys(step.action for step in by_command if not lacking(operator, step))),
    )


def sample_topics(scenario: Scenario, brokers: Sequence[int]) -> dict[str, Wanted]:
    """Returns topics as the run would create them on a cluster with the broker ids `brokers`, by their names: for each
    distinct set of settings the first topic that has it. All topics have the same replicas."""
    samples = dict[frozenset[tuple[str, str]], str]()
    settings = topics.settings(scenario)
    for name, of_topic in settings.items():
        samples.setdefault(frozenset(of_topic.items()), name)
    return {name: Wanted(settings[name], topics.assignment(scenario, brokers)) for name in samples.values()}


def _is_possible(act: Act) -> bool:
    """Returns whether an action needs nothing but requests to the cluster, or processes of this host, or is somebody
    else's."""
    is_request = act.name in (*_ELECTIONS, *_CHANGES)
    return (
        is_request
        or act.by_others
        or (not act.needs and (act.whom in _HARMLESS_TO_BROKERS or not (act.takes_effect or act.heals)))
    )


def _rate(scenario: Scenario) -> float | None:
    load = scenario.load
    if load.rate is not None:
        return float(load.rate)
    if load.pacing == "flat_out":
        return None
    return max(arm.records for arm in scenario.loaded) / load.duration_s


def _applications(scenario: Scenario) -> list[Application]:
    return [arm.application for arm in scenario.loaded if arm.application is not None]


def _writes_transactions(scenario: Scenario) -> bool:
    """Returns whether anybody writes transactions: producers, transforms, or the canary, whose effects in an output
    topic are always written so (`applications.output_topic`)."""
    of_applications = (each.transactional_id or each.has_output_topic for each in _applications(scenario))
    return bool(scenario.transactional) or any(of_applications)


def _transactional_ids(scenario: Scenario) -> list[Right]:
    """Returns the rights on transactional.ids: on those of a run, and on a user's own, which begin with other words."""
    producers = [arm.transactional_id for arm in scenario.loaded]
    named = {*producers, *(each.transactional_id for each in _applications(scenario))}
    own = sorted(name for name in named if name and not f"{name}-".startswith(rights.PREFIX))
    return [rights.WRITE_TRANSACTIONS, *(rights.WRITE_TRANSACTIONS._replace(name=name) for name in own)]

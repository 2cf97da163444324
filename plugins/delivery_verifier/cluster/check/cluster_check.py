"""The cluster check itself: connects to every broker, asks for rights and facts, and ends within seconds.

It creates, writes and removes nothing, and commits no offset.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

from delivery_verifier.cluster.check import causes, facts, rights
from delivery_verifier.cluster.check.causes import Cause
from delivery_verifier.cluster.check.facts import Broker, Software
from delivery_verifier.cluster.check.rights import Answer, Created, Right, Wanted
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol import authorization
from delivery_verifier.cluster.protocol.asking import Asking
from delivery_verifier.cluster.security import names, stores, tls
from delivery_verifier.cluster.security.reading import Access
from delivery_verifier.model.errors import VerifierError

WITHIN_S = 15.0
"""Seconds within which the check ends."""
_Result = TypeVar("_Result")


class Unreachable(VerifierError, RuntimeError):
    """No broker of the cluster can be reached. The message has one line for each server, with the property that is
    wrong."""

    exit_code = 69


class Unreached(NamedTuple):
    """A broker that could not be reached. `number`: its id, or None for a bootstrap server."""

    number: int | None
    address: Address
    cause: Cause

    def __str__(self) -> str:
        who = "bootstrap server" if self.number is None else f"broker {self.number}"
        return f"{who} {self.address}: {self.cause}"


class Reached(NamedTuple):
    """The brokers of a cluster, each asked at the address that it advertises.

    * `asking`: sends requests to `members`, the brokers that the cluster names. `software`: what those that answered
      say of themselves, by id; at least one.
    * `unreached`: the brokers that did not answer. `beside`: bootstrap servers that did not, and are no known broker.
    """

    asking: Asking
    members: facts.Members
    software: Mapping[int, Software]
    unreached: tuple[Unreached, ...]
    beside: tuple[Unreached, ...]


class Checked(NamedTuple):
    """What the check found out.

    * `principal`: who the cluster takes this client for, as far as the properties say it.
    * `brokers`, `software`: the brokers, and what those that answered say of themselves, by id.
    * `settings`: settings of the brokers by name; None if this client may not read them.
    * `rights`: for each right that was asked for, whether the client has it.
    * `created`: what the cluster says of each topic that was asked about; None if it did not answer.
    * `unreached`: the brokers that did not answer. `beside`: bootstrap servers that did not, and are no known broker.
    * `took_s`: how long the check took, in seconds.
    """

    cluster_id: str
    principal: str
    servers: str
    brokers: tuple[Broker, ...]
    software: Mapping[int, Software]
    settings: Mapping[str, str] | None
    rights: tuple[Answer, ...]
    created: Mapping[str, Created | None]
    unreached: tuple[Unreached, ...]
    beside: tuple[Unreached, ...]
    took_s: float


def check(
    access: Access, needed: Sequence[Right], topics_of: Callable[[Sequence[int]], Mapping[str, Wanted]]
) -> Checked:
    """Checks the cluster that `access` reaches for `needed`. `topics_of` returns the topics of the run to ask about by
    their names, at least one, from the ids of the brokers.

    Raises Unreachable, with the causes, if no server can be reached, and BadInput if a file of a key or certificate
    cannot be used.
    """
    began_s = time.monotonic()
    until_s = began_s + WITHIN_S - 1
    reached = reach(access, until_s)
    known = reached.members
    topics = topics_of(sorted(broker.number for broker in known.brokers))
    first = next(iter(topics.values()))
    absent = f"{rights.PREFIX}check-{secrets.token_hex(6)}"
    question = rights.RightsQuestion(reached.asking, min(reached.software), absent, first)
    answers, created, settings = _answers(question, needed, topics, until_s)
    return Checked(
        known.cluster_id,
        principal(access.security),
        ",".join(map(str, access.servers)),
        known.brokers,
        reached.software,
        settings,
        answers,
        created,
        reached.unreached,
        reached.beside,
        time.monotonic() - began_s,
    )


def reach(access: Access, until_s: float) -> Reached:
    """Connects to every broker of the cluster that `access` reaches. What does not answer until `until_s`, on the
    monotonic clock, is unreached. Raises what `check` raises."""
    tls.context(access.security)
    asking, known, unreached = _members(access, until_s)
    software = _software(asking, known, access.security, until_s)
    silent = [each for each in software.values() if isinstance(each, Unreached)]
    answering = {number: each for number, each in software.items() if isinstance(each, Software)}
    if not answering:
        raise Unreachable(lines([*unreached, *silent]))
    addresses = {broker.address for broker in known.brokers}
    beside = tuple(each for each in unreached if each.address not in addresses)
    return Reached(asking, known, answering, tuple(silent), beside)


def principal(security: Mapping[str, str]) -> str:
    """Returns who the cluster takes a client with the properties `security` for, if it maps no principals."""
    security = names.usual(security)
    if security.get(names.PROTOCOL, "").upper().startswith("SASL_"):
        return f"User:{security['sasl.username']}"
    pair = tls.own_pair(security) if tls.is_used(security) else None
    return "User:ANONYMOUS" if pair is None else f"User:{stores.subject(pair.chain)}"


def _members(access: Access, until_s: float) -> tuple[Asking, facts.Members, list[Unreached]]:
    """Asks every bootstrap server for the members of the cluster. Raises Unreachable if none answers, and if two of
    them belong to different clusters."""
    first = Asking(Connection(dict(enumerate(access.servers)), access.security))
    tasks = {number: partial(facts.members, first, number) for number in range(len(access.servers))}
    views, unreached = list[facts.Members](), list[Unreached]()
    for number, result in _in_parallel(tasks, until_s).items():
        if isinstance(result, Exception):
            address = access.servers[number]
            unreached.append(Unreached(None, address, causes.cause(result, access.security, address)))
        else:
            views.append(result)
    if not views:
        raise Unreachable(lines(unreached))
    if len({each.cluster_id for each in views}) > 1:
        clusters = ", ".join(sorted({each.cluster_id for each in views}))
        raise Unreachable(f"bootstrap.servers: they belong to different clusters: {clusters}")
    brokers = {broker.number: broker.address for each in views for broker in each.brokers}
    return Asking(Connection(brokers, access.security)), views[0], unreached


def _software(
    asking: Asking, known: facts.Members, security: Mapping[str, str], until_s: float
) -> dict[int, Software | Unreached]:
    """Asks every broker, at the address that it advertises. A broker counts as reached once it answers a request that
    demands authentication."""

    def ask(broker: Broker) -> Software:
        facts.members(asking, broker.number)
        return facts.software(asking, broker.number)

    results = _in_parallel({each.number: partial(ask, each) for each in known.brokers}, until_s)
    addresses = {broker.number: broker.address for broker in known.brokers}
    return {
        number: _unreached(number, addresses[number], result, security) if isinstance(result, Exception) else result
        for number, result in results.items()
    }


def _unreached(number: int, address: Address, error: Exception, security: Mapping[str, str]) -> Unreached:
    """A broker's address is not the user's: the broker advertises it."""
    cause = causes.cause(error, security, address)
    of_broker = cause._replace(name="advertised.listeners of the broker") if cause.name == causes.SERVERS else cause
    return Unreached(number, address, of_broker)


def _answers(
    question: rights.RightsQuestion, needed: Sequence[Right], topics: Mapping[str, Wanted], until_s: float
) -> tuple[tuple[Answer, ...], dict[str, Created | None], dict[str, str] | None]:
    """Asks for all rights, for topics of the run, and for the settings. What is not answered in time is not known."""
    answers, settings, created = dict[Right, Answer](), list[dict[str, str] | None](), dict[str, Created]()

    def ask() -> None:
        for right in needed:
            try:
                answers[right] = rights.ask(right, question)
            except (OSError, VerifierError, IndexError) as error:
                answers[right] = Answer(right, "not known", str(error) or type(error).__name__)
        for name, topic in topics.items():
            with suppress(OSError, VerifierError, IndexError):  # not known then, and said so
                created[name] = rights.created(question._replace(wanted=topic))
        with suppress(OSError, VerifierError, IndexError):
            settings.append(facts.settings(question.asking, question.broker))

    _in_parallel({0: ask}, until_s)
    late = "the cluster did not answer in time"
    every = tuple(answers.get(right, Answer(right, "not known", late)) for right in needed)
    known = {name: each for name, each in dict(created).items() if each.code not in authorization.REFUSED}
    return every, {name: known.get(name) for name in topics}, next(iter(settings), None)


def _in_parallel(tasks: Mapping[int, Callable[[], _Result]], until_s: float) -> dict[int, _Result | Exception]:
    """Runs all tasks at once. Returns the result of each or what it raised, or TimeoutError if it had not ended at
    `until_s`, on the monotonic clock."""
    results: dict[int, _Result | Exception] = {}

    def run(key: int, task: Callable[[], _Result]) -> None:
        try:
            results[key] = task()
        except Exception as error:  # is returned, and named by its cause
            results[key] = error

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in tasks.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until_s - time.monotonic()))
    return {key: results.get(key, TimeoutError("no answer in time")) for key in tasks}


def lines(unreached: Sequence[Unreached]) -> str:
    """Returns one line for each of `unreached`, and the same line only once."""
    return "\n".join(dict.fromkeys(map(str, unreached)))

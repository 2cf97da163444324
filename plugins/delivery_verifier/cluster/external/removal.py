"""Removes from a cluster what a run created there, and nothing else: topics by the ids that the register has."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterator

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.external.cluster import SharedCluster
from delivery_verifier.cluster.external.register import Entry, Register
from delivery_verifier.cluster.external.whole import is_whole
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import StepFailed, VerifierError
from delivery_verifier.model.history import now_us
from delivery_verifier.model.operator_commands import HEALED_BY

GROUPS_S, ANSWER_S, LAG_S = 25.0, 10.0, 3.0
"""How long the members of all groups may take to leave them, a broker to answer, and a broker to know of a removal, in
seconds. The agent of a run waits for groups, and then the run again: together longer than the session timeout of
members, 45 s."""
SETTLED_S = 60.0
"""After so many seconds, a topic that no broker knows was never created: a request for it is no longer under way."""
_GONE, _OTHER_CONTROLLER = 100, 41
"""Error codes: no topic has this id; another broker is the controller."""
_FAILURES = (KafkaException, VerifierError, OSError)


def remove(register: Register, cluster: SharedCluster) -> list[str]:
    """Removes what stands in `register`, and then its file. Returns the names of what was removed: none if another
    process has removed all meanwhile. Brokers that were ordered to be broken must be back.

    Raises StepFailed if something is left, which then still stands in the register, and DeadlinePassed if another
    process does not end its removal.
    """
    with register.locked() as stands:
        return _remove(register, cluster) if stands else []


def _remove(register: Register, cluster: SharedCluster) -> list[str]:
    removed, remaining, broken = list[str](), list[str](), list[str]()
    client, until_s = topics.admin(cluster.connection), time.monotonic() + GROUPS_S
    for entry in register.standing():
        try:
            if entry.kind == "broker":
                _require_whole(entry, cluster)
            elif (
                _remove_topic(entry, client, cluster)
                if entry.kind == "topic"
                else _remove_group(entry, client, until_s)
            ):
                removed.append(entry.name)
            register.gone(entry)
        except _FAILURES as error:
            (broken if entry.kind == "broker" else remaining).append(f"{entry.name} ({error})")
    if message := "; ".join(_problems(remaining, broken, register)):
        raise StepFailed(message)
    register.end()
    return removed


def _problems(remaining: list[str], broken: list[str], register: Register) -> Iterator[str]:
    if remaining:
        yield (
            f"not removed from the cluster: {', '.join(remaining)}; remedy: the next run there, or kdv doctor --heal, "
            "removes it"
        )
    if broken:
        yield (
            f"not healed: {', '.join(broken)}; remedy: by hand, or, if one is gone for good, remove {register.path}; "
            "no run does it"
        )


def _require_whole(entry: Entry, cluster: SharedCluster) -> None:
    """Raises StepFailed, for the operator, if a broker that a run ordered to be broken is not whole again. Nobody but
    the operator can end the fault: the run is over."""
    if not is_whole(cluster, entry.broker):
        ends_it = HEALED_BY[entry.name.partition(" ")[0]]
        ordered_at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(entry.at_us / 1e6))
        raise StepFailed(f"ordered at {ordered_at}, and it is not back: {ends_it} it by hand")


def ids(client: AdminClient, names: list[str]) -> dict[str, str]:
    """Returns the id of each topic of `names` that exists. Raises KafkaException if one must not be seen, or if no
    broker answers."""
    topic_ids = dict[str, str]()
    for name, future in client.describe_topics(TopicCollection(names), request_timeout=ANSWER_S).items():
        try:
            topic_ids[name] = str(future.result(ANSWER_S).topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return topic_ids


def _remove_topic(entry: Entry, client: AdminClient, cluster: SharedCluster) -> bool:
    """Removes the topic of `entry` by its id. Returns whether there was one. A topic of the same name with another id
    stays.

    If a killed run could not write the id down any more, the topic is recognized by its name: the token in it is
    random, and stood in no cluster before the run wrote it down.
    """
    there = ids(client, [entry.name]).get(entry.name)
    topic_id = entry.topic_id or there
    if topic_id is None:
        if now_us() - entry.at_us < SETTLED_S * 1e6:
            raise StepFailed("whether it was created is not known yet")
        return False
    code = _delete(topic_id, cluster)
    if code == _GONE:
        is_unseen = lambda: ids(client, [entry.name]).get(entry.name) != topic_id  # noqa: E731
        wait_until(is_unseen, "a topic that the cluster says it does not know to be shown no more", LAG_S, every_s=0.2)
        return False
    if code:
        raise StepFailed(f"the cluster answered with error {code} ({KafkaError(code).str()})")
    return True


def _delete(topic_id: str, cluster: SharedCluster) -> int:
    """Asks for the removal of the topic with this id, and returns the error code. Asks one broker after another, until
    one answers that can do it."""
    binary_id, failure = uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "==")), "no broker"
    for broker in cluster.connection.brokers:
        try:
            said = cluster.asking.ask(
                broker, "DeleteTopics", ANSWER_S, topics=[(None, binary_id)], timeout_ms=int(ANSWER_S * 1000)
            )
        except OSError as error:
            failure = f"broker {broker}: {error}"
            continue
        code = int(said.responses[0].error_code)
        if code != _OTHER_CONTROLLER:
            return code
    raise StepFailed(f"no broker could remove it; {failure}")


def _remove_group(entry: Entry, client: AdminClient, until_s: float) -> bool:
    """Removes the group of `entry`. Returns whether there was one. Waits until its members have left, at most until
    `until_s` on the monotonic clock: the coordinator keeps a killed one for its session timeout."""
    answers = list[bool]()

    def ended() -> bool:
        answer = _deleted(client, entry.name)
        answers.extend([] if answer is None else [answer])
        return answer is not None

    wait_until(ended, f"the members of {entry.name} to leave", max(0.0, until_s - time.monotonic()), every_s=0.5)
    return answers[0]


def _deleted(client: AdminClient, group: str) -> bool | None:
    """Returns True if the group was removed, False if there is none, and None if it still has members."""
    try:
        client.delete_consumer_groups([group], request_timeout=ANSWER_S)[group].result(ANSWER_S)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.GROUP_ID_NOT_FOUND:
            return False
        if code == KafkaError.NON_EMPTY_GROUP:
            return None
        raise
    return True

"""The targets of fault plans. A target is a name that stands for the brokers to which an action is done.

A cycle is one pass through the steps of a fault plan. The module `faults.targets` resolves each name to broker ids once
per cycle, when a step of the cycle first names the target.
"""

from __future__ import annotations

from msgspec import Struct


class Target(Struct, frozen=True):
    """One target. `meaning` says in words for which brokers the target stands.

    `in_a_sentence` names the target as the subject of a sentence, in the singular, e.g. `the leader`.
    """

    meaning: str
    in_a_sentence: str = "a broker"


TARGETS: dict[str, Target] = {
    "leader": Target("the leader of partition 0 when the name first occurs in a cycle", "the leader"),
    "new_leader": Target("the leader of partition 0 when this name first occurs in a cycle"),
    "followers": Target("all brokers but the cycle's leader", "every follower"),
    "follower": Target("the first of the followers"),
    "other_follower": Target("the second of the followers"),
    "leader_and_follower": Target("the cycle's leader and the first of the followers", "the leader with a follower"),
    "next": Target("another broker in every cycle, in turn"),
    "second": Target("the broker after `next` in turn"),
    "third": Target("the broker after `second` in turn"),
    "all": Target("every broker", "every broker"),
    "transaction_coordinator": Target(
        "the coordinator of the one producer with a transactional.id, when the name first occurs in a cycle",
        "the transaction coordinator",
    ),
    "none": Target("no broker: the action is not done to brokers", "no broker"),
}
"""Maps the name of a target in a fault plan to the target. Within a cycle, a target stands for the same brokers, even
if leaders move. In `Target.meaning`, *the cycle's leader* is the broker for which the target `leader` stands in this
cycle. A step may also name `same`, which is not in this table: the target of the previous step."""

"""What an action of a fault plan is, e.g. `kill`: the class `Act`, and the options that a step may give to an action.

The code that performs the actions is in the room (package) `faults`. Wrong options are refused before a run starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from msgspec import Struct

from delivery_verifier.model.application import CRASH_POINTS
from delivery_verifier.model.history import DisturbanceKind

Capability = Literal["proxy", "network", "power"]
"""What an action needs of the cluster.

* proxy: a proxy stands before the listener of every broker.
* network: single brokers can be cut off. The backend `embedded` needs root and iptables for this.
* power: each broker keeps its data on a file system of its own. This needs root and loop devices.
"""

CAPABILITIES: tuple[Capability, ...] = get_args(Capability)
"""Every value of `Capability`."""

Proof = Literal[
    "leader_moved",
    "re_elected",
    "deposed",
    "leaderless",
    "isr_shrunk",
    "elected",
    "brief",
    "coordinator_moved",
    "transactions_open",
]
"""An effect on the cluster that proves that an injected fault took effect.

The effect must be seen just before the fault is healed or, if the action is momentary (`Act.momentary`), just after the
action. In addition, the code of each action gives a proof of its own, e.g. the state of processes or counts of
requests.

In the list, the targets are the brokers that the action is done to. The hit partitions are the partitions that the
injection touched, as `Injection.hit` defines them.

* leader_moved: the targets led every hit partition before the effect, and brokers that are not targets lead these
  partitions now.
* re_elected: every hit partition is led by another broker than before the effect, in a later leader epoch.
* deposed: the targets led every hit partition before the effect, and lead none of these partitions now. The partitions
  may have no leader at all.
* leaderless: no hit partition has a leader.
* isr_shrunk: the targets are in the ISR of no hit partition.
* elected: before the effect, some hit partitions of subject arms had no leader. All these partitions have a leader now.
* brief: less than 80 % of `broker.session.timeout.ms` passed since the effect. So the controller noticed nothing,
  because it fences a broker only after this timeout.
* coordinator_moved: the targets coordinated transactions of the load before the effect, and brokers that are not
  targets coordinate all these transactions now.
* transactions_open: each producer of the load that has a transactional.id has an open transaction, which began before
  the effect. The coordinators say so (DescribeTransactions: Ongoing).
"""


APIS = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "SyncGroup": 14,
    "ApiVersions": 18,
    "InitProducerId": 22,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "TxnOffsetCommit": 28,
}
"""Maps the name of a request of Kafka's protocol to its API key. Clients under test send these requests."""
Link = Literal["controller", "replication", "client"]
LINKS: tuple[Link, ...] = get_args(Link)
"""The network links of a broker that a fault can cut: to the controller, to the other brokers, and to clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of an action. `meaning` explains the option to people.

    The function `is_allowed` returns whether a value is allowed. `allowed` says in words which values are allowed.
    `required`: whether every step with the action must give the option.
    """

    name: str
    meaning: str
    allowed: str
    is_allowed: Callable[[object], bool]
    required: bool = False


def _is_whole(value: object, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def _number(name: str, meaning: str, low: int = 1, *, required: bool = False) -> Option:
    """Returns an option whose value is a whole number, at least `low`."""
    return Option(
        name=name,
        meaning=meaning,
        allowed=f"a whole number from {low}",
        is_allowed=lambda value: _is_whole(value, low),
        required=required,
    )


CLIENTS = _number("clients", "minimum number of clients affected for the fault to count (default 1)")
COUNTED = (
    _number("nth", "start at the N-th match, counted per broker and client.id since the step (default 1)"),
    _number("count", "how many per broker and client.id (default 0: all)", low=0),
    CLIENTS,
)
"""The options that say how many requests or responses of how many clients an action of the proxy hits."""
FRAMES = (
    Option(
        name="direction",
        meaning="request or response (default response)",
        allowed="request or response",
        is_allowed=lambda value: value in ("request", "response"),
    ),
    Option(
        name="api",
        meaning="name or key of the request in Kafka's protocol (default Produce)",
        allowed=f"{', '.join(APIS)}, or an API key",
        is_allowed=lambda value: value in APIS or _is_whole(value, 0),
    ),
    *COUNTED,
)
"""The options of the proxy's actions. They say which requests or responses an action hits (see
`cluster.proxy.rules.ProxyRule`). The option `clients` says how many clients the action must hit to count as effective.
"""
DELAY = _number("delay_ms", "how much later (ms)", required=True)
BLOCKS = _number("blocks", "per partition and producer (default 1)")
LINKS_CUT = Option(
    name="links",
    meaning="any of controller, replication, client; default controller,replication",
    allowed=f"any of {', '.join(LINKS)}, separated by commas",
    is_allowed=lambda value: {*map(str.strip, str(value).split(","))} <= {*LINKS},
)
MORE_PARTITIONS = _number("count", "how many partitions each topic gets in addition", required=True)
CRASH_POINT = Option(
    name="at",
    meaning="the crash point at which every member parks",
    allowed=", ".join(CRASH_POINTS),
    is_allowed=lambda value: value in CRASH_POINTS,
    required=True,
)
NTH_BATCH = _number("batch", "in which batch, counted from the order on (default 1)")
NTH_RECORD = _number("record", "at applied: after how many records of the batch (default 1)")


def links_cut(options: Mapping[str, object]) -> tuple[Link, ...]:
    """Returns the links that a step with the action `isolate` cuts. `options` are the options of the step, which were
    checked before.

    The option `links` names these links. Without this option, the step cuts all links except the links to clients.
    """
    names = str(options.get("links", "controller,replication")).split(",")
    return tuple(cast(Link, name.strip()) for name in names)


SETTING = Option(
    name="setting",
    meaning="the topic's, e.g. min.insync.replicas",
    allowed="the name of a topic setting",
    is_allowed=lambda value: isinstance(value, str) and bool(value.strip()),
    required=True,
)
VALUE = Option(
    name="value",
    meaning="its new value",
    allowed="a value of that setting",
    is_allowed=lambda value: str(value).strip() != "",
    required=True,
)


def errors_in_options(action: str, known: tuple[Option, ...], values: Mapping[str, object]) -> Iterator[str]:
    """Yields a text for each wrong option of a step: the option, its value, what is allowed, and a remedy.

    `action` is the name of the step's action. `known` are the options that this action has. `values` are the options
    that the step gives, by name.
    """
    by_name = {option.name: option for option in known}
    for name, value in values.items():
        option = by_name.get(name)
        if option is None:
            allowed = ", ".join(sorted(by_name)) or "none"
            yield f"{name} is given, which {action} does not know; allowed: {allowed}; leave it out"
        elif not option.is_allowed(value):
            yield f"{name} is {value!r}; allowed: {option.allowed}; it is {option.meaning}"
    for option in known:
        if option.required and option.name not in values:
            yield f"{option.name} is missing; allowed: {option.allowed}; it is {option.meaning}"


class Act(Struct, frozen=True, kw_only=True):
    """One action of a fault plan, in words and data. The code that performs the action is in `faults`."""

    name: str
    """The action's name in a fault plan."""
    summary: str
    """What the action does, in one sentence for human readers."""
    done: str = ""
    """The predicate of a sentence about the action, e.g. `was killed`. The value is empty if the action is no fault."""
    whom: Literal["broker", "leader", "partition", "topic", "producer", "application"] = "broker"
    """What the action is done to. This becomes the subject of a sentence about the action, e.g. `every producer`."""
    takes_effect: bool = False
    """Whether the action is a fault. The verifier must prove for every injection that the fault took effect."""
    heals: tuple[str, ...] = ()
    """The names of the actions whose effect this action ends (heals). An action that neither takes effect nor heals
    only drives the load, waits, or flushes disks."""
    momentary: bool = False
    """Whether the action is over as soon as it is done, so that nothing has to be healed. The effect of such an action
    must be proven right after the action."""
    only_subject_topics: bool = False
    """Whether the action is done only to the topics of subject arms, that is, the arms that the user asks about. The
    control arms then show what happens without the action."""
    proof_only_before_heal: bool = False
    """When the action's own proof is required. False: right after the action, and again just before healing. True: only
    just before healing, because the effect shows only in later requests of clients."""
    does: Literal["exited", "frozen", ""] = ""
    """The state of a broker process after the action. The value is empty if the action neither ends nor freezes
    brokers."""
    observed_as: tuple[DisturbanceKind, ...] = ()
    """The kinds of disturbance that the action is expected to cause, and that the observer can see. If the tuple is not
    empty, the observer must see at least one disturbance, of any kind, during each injection that took effect.
    Otherwise the record of the observer is not trusted."""
    counts_as: tuple[DisturbanceKind, ...] = ()
    """Kinds of disturbance that no observer can see. Every injection of the action counts as a disturbance of each of
    these kinds. A kind in `ON_TOPICS` gives one disturbance for each hit topic. Any other kind gives one disturbance
    for the whole cluster. The disturbance is planned if the injection took effect. An action that counts as
    `topic_altered` must have the options `setting` and `value`."""
    proofs: tuple[Proof, ...] = ()
    """The effects that must be seen just before healing, to prove that the fault took effect. A step of a fault plan
    may require other effects instead (`FaultStep.proofs`)."""
    means: str = ""
    """The means by which the action is done to brokers: a module of that name in the folder `means` of a backend. Empty
    if the action needs no means, because it is done to clients or is an ordinary request to the cluster."""
    by_others: bool = False
    """Whether somebody else does it to brokers, and the run only watches. Its injections are derived from what the
    observer sees (see `contract.outside`), and there may be any number of them."""
    options: tuple[Option, ...] = ()
    """The options that a step of a fault plan may set for the action."""

    @property
    def needs(self) -> tuple[Capability, ...]:
        """What the cluster must be started with for the action."""
        return tuple(capability for capability in CAPABILITIES if capability == self.means)

    @property
    def clients(self) -> bool:
        """Whether the action is done to all producers or all applications at once, whatever their arm, and not to
        brokers."""
        return self.whom in ("producer", "application")

    @property
    def all_partitions(self) -> bool:
        """Whether the action touches every partition that carries load, no matter which brokers lead the partitions.

        True for actions on producers, on applications and on topics.
        """
        return self.clients or "topic_altered" in self.counts_as

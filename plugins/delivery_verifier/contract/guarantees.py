"""The matrix of guarantees: which claims hold for given settings under each class of faults.

For the claims that do not hold, the matrix names the rules of the contract that break them. A rule breaks a claim if it
permits an anomaly that the claim forbids.
"""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly, subset
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.history import Disturbance, DisturbanceKind
from delivery_verifier.model.scenario import Claim


class FaultClass(Struct, frozen=True, kw_only=True):
    """A class of faults: one sort of trouble that people who run Kafka meet, e.g. a crash or a loss of power.

    `kinds` are the kinds of disturbance that such a fault causes. `replicas` concerns only the loss of power of a whole
    ISR: it is the number of replicas in this ISR. For any other class it is 0, which has no meaning.
    """

    name: str
    summary: str
    kinds: tuple[DisturbanceKind, ...] = ()
    replicas: int = 0

    @property
    def disturbances(self) -> list[Disturbance]:
        """The disturbances that a fault of this class causes: one planned disturbance for each of `kinds`."""
        return [Disturbance(kind=kind, at_us=0, planned=True, replicas=self.replicas) for kind in self.kinds]


_ENDED: tuple[DisturbanceKind, ...] = ("leader_change", "isr_shrink")
"""The kinds of disturbance that follow when a broker ends, stands still or loses its network connections."""
_POWER: tuple[DisturbanceKind, ...] = ("power_loss", "broker_crash", *_ENDED)
"""The kinds of disturbance that a loss of power of a broker causes."""

FAULT_CLASSES: tuple[FaultClass, ...] = (
    FaultClass(name="none", summary="a quiet day"),
    FaultClass(
        name="leadership change",
        summary="a rolling restart, a preferred leader election",
        kinds=("broker_stop", *_ENDED),
    ),
    FaultClass(name="crash", summary="a broker is killed; its page cache survives", kinds=("broker_crash", *_ENDED)),
    FaultClass(
        name="freeze", summary="a broker stands still for longer than its session", kinds=("broker_freeze", *_ENDED)
    ),
    FaultClass(
        name="partition",
        summary="a broker is cut off from controller and replicas, not from clients",
        kinds=("isolation", *_ENDED),
    ),
    FaultClass(
        name="connections", summary="requests or responses are late or gone", kinds=("connection_loss", "late_end")
    ),
    FaultClass(name="power of one", summary="one of several in-sync replicas loses power", kinds=_POWER),
    FaultClass(
        name="power of last",
        summary="the only replica left in the ISR loses power; the others had left in order",
        kinds=(*_POWER, "isr_power_loss", "coordinator_power_loss"),
        replicas=1,
    ),
    FaultClass(
        name="power of all",
        summary="all replicas lose power at once",
        kinds=(*_POWER, "isr_power_loss", "coordinator_power_loss"),
        replicas=3,
    ),
    FaultClass(
        name="no clean leader",
        summary="only replicas that are not in sync are left",
        kinds=("broker_crash", *_ENDED, "unclean_election"),
    ),
    FaultClass(
        name="forced election",
        summary="as before, and an operator asks for an unclean election",
        kinds=("broker_crash", *_ENDED, "unclean_election", "unclean_request"),
    ),
    FaultClass(name="client crash", summary="the producer is killed and not restarted", kinds=("client_crash",)),
    FaultClass(
        name="resend",
        summary="the application sends again what it has no answer for, in a new process or not",
        kinds=("client_crash", "application_resend"),
    ),
)
"""Every class of faults that the rules of the contract distinguish.

The class `no clean leader` has the disturbance `unclean_election` for all settings. This is not what happens if the
settings forbid unclean elections: then Kafka elects no leader, and the partition goes offline and keeps its records.
The result is right all the same, because the rule `lost.unclean` permits a loss only if the settings allow unclean
elections.
"""

GUARANTEES: tuple[Claim, ...] = ("at_least_once", "at_most_once", "exactly_once", "ordered")
"""The claims that settings can guarantee, in the order of the matrix's columns. The claim `contract` is left out,
because it stands for all that the settings promise."""

UNCLASSED: dict[DisturbanceKind, str] = subset(
    "all other kinds have a class of faults",
    {
        "topic_altered": "changes the settings themselves: the weakest of them counts, in every class; and the "
        "requests that a raised min.insync.replicas refuses are refused as in a class in which an ISR shrinks",
        **dict.fromkeys(
            ("application_crash", "application_freeze", "rewind"),
            "concerns only arms with an application: the matrix is about producer and topic",
        ),
        "outage": "permits nothing: it is a loss of power, or another class of faults, and nobody saw which",
        "unclean_coordinator_election": "Kafka switches unclean elections off in the coordinators' topic: only an "
        "operator who asks for one there gets it",
    },
)
"""The kinds of disturbance that belong to no class of faults. The value for each kind is the reason."""


class GuaranteeRow(Struct, frozen=True, kw_only=True):
    """One row of the matrix: one class of faults, and what the settings guarantee under it.

    * `fault_class`: the name of the class. `summary` describes the class in words.
    * `disturbances`: the kinds of disturbance that a fault of the class causes.
    * `guarantees`: maps each claim to whether it holds.
    * `broken_by`: the ids of the rules that break claims. A rule breaks a claim if it permits an anomaly that the claim
      forbids.
    """

    fault_class: str
    summary: str
    disturbances: list[DisturbanceKind]
    guarantees: dict[Claim, bool]
    broken_by: list[str]


def matrix(settings: Settings) -> list[GuaranteeRow]:
    """Returns the matrix for `settings`, one row per class of faults.

    The anomaly RESENT counts only in classes of faults in which the application sends records again. There it breaks
    `exactly_once`, which forbids RESENT. It also breaks `at_most_once`, although that claim does not forbid RESENT: a
    record that the application sends again may be written twice.
    """
    return [_row(settings, fault_class) for fault_class in FAULT_CLASSES]


def _row(settings: Settings, fault_class: FaultClass) -> GuaranteeRow:
    rulings = contract(settings, fault_class.disturbances)
    permitted = {anomaly for anomaly, ruling in rulings.items() if ruling.ruling == "PERMITTED"}
    if "application_resend" not in fault_class.kinds:
        permitted.discard(Anomaly.RESENT)
    forbidden_by = {claim: set(CLAIMS[claim].forbids) for claim in GUARANTEES}
    forbidden_by["at_most_once"].add(Anomaly.RESENT)
    breaking = permitted & set().union(*forbidden_by.values())
    return GuaranteeRow(
        fault_class=fault_class.name,
        summary=fault_class.summary,
        disturbances=list(fault_class.kinds),
        guarantees={claim: not permitted & anomalies for claim, anomalies in forbidden_by.items()},
        broken_by=[rulings[anomaly].rule for anomaly in Anomaly if anomaly in breaking],
    )


def lines(rows: list[GuaranteeRow]) -> list[str]:
    """Returns the matrix `rows` as lines of text: the names of the guarantees, and then a line per class of faults.

    Such a line has a yes or no for each guarantee, and the ids of the rules that break guarantees.
    """
    width = max(len(row.fault_class) for row in rows)
    head = " ".join(f"{claim:<13}" for claim in GUARANTEES)
    body = [
        f"  {row.fault_class:<{width}} {' '.join(f'{_word(held):<13}' for held in row.guarantees.values())} "
        f"{', '.join(row.broken_by)}".rstrip()
        for row in rows
    ]
    return [f"  {'':<{width}} {head} broken by", *body]


def _word(held: bool) -> str:
    return "yes" if held else "no"

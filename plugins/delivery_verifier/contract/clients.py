"""The contract for the Java client, and where it differs from the contract for librdkafka with the same settings.

Most statements about the Java client are taken from its source code. Each rule says with which clients it was measured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from msgspec import Struct

from delivery_verifier.contract.guarantees import FAULT_CLASSES, GuaranteeRow, matrix
from delivery_verifier.contract.guarantees import lines as matrix_lines
from delivery_verifier.contract.rules import RULES
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.client import Client

_EXERCISED = "a run exercises librdkafka with them, and the Java client if `--clients` names it"


class ClientDifference(Struct, frozen=True, kw_only=True):
    """An anomaly on which the contract rules differently for librdkafka and for the Java client.

    * `permitted_with`: the client with which the contract permits the anomaly. With the other client, the anomaly is
      forbidden.
    * `rule`: the id of the rule that permits the anomaly. `sentence` explains this rule.
    * `fault_classes`: the names of the classes of faults (see FAULT_CLASSES) under which the two rulings differ.
    * `java`: what the Java client does.
    """

    anomaly: Anomaly
    permitted_with: Client
    rule: str
    fault_classes: list[str]
    sentence: str
    java: str


class JavaContract(Struct, frozen=True, kw_only=True):
    """The contract for the Java client.

    `matrix` says which guarantees the Java client gives. `differences` lists where the contract rules differently for
    librdkafka. `client` is the client with its version, in words.
    """

    client: str
    matrix: list[GuaranteeRow]
    differences: list[ClientDifference]


def java_contract(settings: Settings, client: str = "the Java client") -> JavaContract:
    """Returns what the contract says of the Java client with `settings`, in the version `settings.client_version`.

    `client`: this client in words.
    """
    rows = matrix(replace(settings, client="java"))
    return JavaContract(client=client, matrix=rows, differences=_differences(settings))


def _differences(settings: Settings) -> list[ClientDifference]:
    """Returns the differences between the Java client and librdkafka, both with `settings`.

    Each difference belongs to a rule that permits an anomaly with one client, while the contract forbids this anomaly
    with the other client.
    """
    reasons = {rule.id: rule.java for rule in RULES}
    differences: dict[str, ClientDifference] = {}
    for fault_class in FAULT_CLASSES:
        rulings = {
            client: contract(replace(settings, client=client), fault_class.disturbances) for client in get_args(Client)
        }
        for anomaly in Anomaly:
            permitting = [client for client in rulings if rulings[client][anomaly].ruling == "PERMITTED"]
            if len(permitting) != 1:
                continue
            ruling = rulings[permitting[0]][anomaly]
            difference = ClientDifference(
                anomaly=anomaly,
                permitted_with=permitting[0],
                rule=ruling.rule,
                fault_classes=[],
                sentence=ruling.sentence,
                java=reasons[ruling.rule],
            )
            differences.setdefault(ruling.rule, difference).fault_classes.append(fault_class.name)
    return list(differences.values())


def lines(described: JavaContract) -> list[str]:
    """Returns `described`, the contract for the Java client, as lines of text."""
    text = [
        f"these settings were written for {described.client}; {_EXERCISED}",
    ]
    if not described.differences:
        return [*text, "  with these settings the contract promises the same of both clients"]
    text.append("where the Java client differs from librdkafka with these settings, by its source")
    for difference in described.differences:
        client = "librdkafka" if difference.permitted_with == "librdkafka" else "the Java client"
        text += [
            f"  {difference.anomaly:<12} permitted with {client} alone ({difference.rule}), under: "
            f"{', '.join(difference.fault_classes)}",
            f"{'':15}{difference.sentence}",
            f"{'':15}{difference.java}",
        ]
    return [*text, f"{described.client} under each class of faults, by its source", *matrix_lines(described.matrix)]

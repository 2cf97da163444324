"""Resources of Strimzi, as Kubernetes has them: one or several in a YAML file.

Source: Strimzi's documentation, "Custom resource API Reference". A `KafkaNodePool` has no broker configuration of its
own: that of all brokers stands in the `Kafka` resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import connect, topic_files, trees
from delivery_verifier.planning.own_settings.reading import Reading, Role

_STRIMZI = "kafka.strimzi.io/"
"""What Strimzi's apiVersion begins with. Other operators have resources of the same kinds, with other fields."""
_TOPIC, _CLUSTER, _WORKER, _CONNECTOR = "KafkaTopic", "Kafka", "KafkaConnect", "KafkaConnector"
_BESIDE = frozenset({"KafkaNodePool", "KafkaUser", "KafkaRebalance", "Namespace", "ConfigMap", "Secret", "Service"})
"""Kinds that stand in such files, too, and have no settings of a producer, a consumer or a topic."""
_NOT_APPLIED = {"strimzi.io/managed": "false", "strimzi.io/pause-reconciliation": "true"}
"""Annotations with which Strimzi's operators leave a resource alone, whatever it says."""
_OF_CLUSTER = "strimzi.io/cluster"
_OF_TOPICS = (_TOPIC, _CLUSTER)
_READ = (*_OF_TOPICS, _WORKER, _CONNECTOR)


def is_resource(document: Mapping[str, object]) -> bool:
    """Returns whether the document is a resource of Kubernetes."""
    return "kind" in document and "apiVersion" in document


def read(documents: Sequence[trees.Tree], role: Role, field: str) -> Reading:
    """Returns the settings in the resources of one file.

    A KafkaTopic lies over the Kafka resource beside it, and a KafkaConnector over the KafkaConnect. Raises BadInput for
    two resources of one kind, for a kind that is not read, for a resource that Strimzi does not apply, and if there are
    no settings of this `role`.
    """
    by_kind: dict[str, trees.Tree] = {}
    for document in _single(documents):
        if str(document["kind"]) in _READ and not str(document["apiVersion"]).startswith(_STRIMZI):
            raise BadInput(
                f"{field} is a resource of another operator than Strimzi, which is not read; give what is in force in "
                ".properties syntax"
            )
        kind = str(document["kind"])
        if kind in by_kind and kind in _READ:
            raise BadInput(f"{field} has several resources of the kind {kind}; allowed: 1; leave the others out")
        by_kind[kind] = document
    _require_in_force(by_kind, field)
    others = [kind for kind in by_kind if kind not in _READ]
    read_kinds = [kind for kind in by_kind if kind in _READ]
    of_role = [kind for kind in read_kinds if (kind in _OF_TOPICS) == (role == "topic")]
    for kind in others:
        if kind not in _BESIDE or len(by_kind) == 1:
            named = kind if kind.isalnum() else "that it names"
            raise BadInput(
                f"{field} is a Kubernetes resource of the kind {named}, which is not read; give what is in force in "
                ".properties syntax"
            )
    # Without a resource of this role, the reader of another one says what it is for.
    reading = _of_kinds({kind: by_kind[kind] for kind in of_role or read_kinds}, role, field)
    if beside := [kind for kind in by_kind if kind not in of_role]:
        reading.left_out[f"resources without settings of a {role}"] = beside
    return reading


def _single(documents: Sequence[trees.Tree]) -> Iterator[trees.Tree]:
    """Yields the resources, and those in a List, as `kubectl get -o yaml` prints several."""
    for document in documents:
        items = document.get("items")
        if str(document["kind"]).endswith("List") and isinstance(items, list):
            yield from (item for item in items if isinstance(item, dict) and is_resource(item))
        else:
            yield document


def _require_in_force(by_kind: Mapping[str, trees.Tree], field: str) -> None:
    """Raises BadInput for a resource that Strimzi does not apply, and for one that belongs to another cluster than the
    resource beside it (Strimzi's documentation, "Pausing reconciliation", "Managing KafkaTopic resources without
    impacting Kafka topics" and the label strimzi.io/cluster)."""
    for kind, document in by_kind.items():
        annotations = trees.scalars(trees.below(document, "metadata", "annotations"))
        for name, value in _NOT_APPLIED.items():
            if kind in _READ and annotations.get(name, "").lower() == value:
                raise BadInput(
                    f"{field}: a {kind} has the annotation {name}: {value}, so Strimzi does not apply it, and what "
                    "is in force is not known; give what Kafka itself has, e.g. from kafka-configs --describe --all"
                )
    for kind, parent in ((_TOPIC, _CLUSTER), (_CONNECTOR, _WORKER)):
        owner = trees.below(by_kind.get(kind, {}), "metadata", "labels").get(_OF_CLUSTER)
        beside = trees.below(by_kind.get(parent, {}), "metadata").get("name")
        if owner and beside and owner != beside:
            raise BadInput(
                f"{field}: the {kind} belongs to another {parent} (label {_OF_CLUSTER}) than the one beside it; "
                "leave one of them out"
            )


def _of_kinds(by_kind: Mapping[str, trees.Tree], role: Role, field: str) -> Reading:
    if not by_kind:
        raise BadInput(f"{field} has no resource with settings of a {role}; give the one that has")
    if _TOPIC in by_kind:
        topic = topic_files.strimzi_topic(by_kind[_TOPIC], role, field)
        if _CLUSTER not in by_kind:
            return topic
        reading = topic_files.broker(_config(by_kind[_CLUSTER], field, "kafka"), role, field)
        reading.notes.clear()  # this topic's own settings are known
        reading.put_all(topic.settings)
        return reading
    if _CLUSTER in by_kind:
        return topic_files.broker(_config(by_kind[_CLUSTER], field, "kafka"), role, field)
    if _CONNECTOR in by_kind:
        of_worker = _config(by_kind[_WORKER], field) if _WORKER in by_kind else None
        return connect.connector(_config(by_kind[_CONNECTOR], field), role, field, of_worker)
    return connect.worker(_config(by_kind[_WORKER], field), role, field)


def _config(document: trees.Tree, field: str, *below: str) -> dict[str, str]:
    return trees.only_scalars(trees.below(document, "spec", *below, "config"), field)

"""Settings files as people have them, in every format: what is taken over, what is said, and what they promise.

The files are small and made for these tests; each has the trait that makes a format easy to misread.
"""

from __future__ import annotations

from typing import NamedTuple

NOTHING = ""
NO_COPIES = "at_most_once"
ORDER = "ordered"
KEPT = "at_least_once"
IN_ORDER = "at_least_once ordered"
ALL = "at_least_once at_most_once exactly_once ordered"


class SettingsFile(NamedTuple):
    """A file, and what must become of it.

    * `promise`: the guarantees that its client keeps if a broker crashes, as words. None: nothing is promised, because
      the file is refused, or is about no producer.
    * `settings`: what must be taken over, as `name=value` words. A word that begins with `!` must not be there.
    * `said`: texts that the notes must have; or, if `promise` is None and `refused`, the refusal.
    """

    name: str
    text: str
    promise: str | None
    settings: str
    said: tuple[str, ...]
    field: str = "producer_config"
    refused: bool = False


def _spring(*lines: str) -> str:
    return "spring:\n  kafka:\n" + "".join(f"    {line}\n" for line in lines)


SPRING = (
    SettingsFile(
        "bootstrap.yml",
        _spring("producer:", "  acks: all"),
        None,
        "",
        ("which Spring Cloud reads before application.yml",),
        refused=True,
    ),
    SettingsFile(
        "application-prod",
        _spring("producer:", "  acks: all"),
        None,
        "",
        ("is a profile's file, application-prod",),
        refused=True,
    ),
    SettingsFile(
        "streams-alone.yml",
        _spring("streams: {application-id: x}"),
        None,
        "",
        ("spring.kafka.streams.application-id", "promises is not known"),
        refused=True,
    ),
    SettingsFile(
        "streams-bare.yml",
        _spring("producer: {acks: all}", "streams: {properties: {acks: 0}}"),
        None,
        "",
        ("spring.kafka.streams.properties.acks", "promises is not known"),
        refused=True,
    ),
    SettingsFile(
        "dashed-names.yml",
        _spring(
            "producer:", "  acks: 1", "  retries: 4", "  linger-ms: 9", "  max-in-flight-requests-per-connection: 1"
        ),
        NOTHING,
        "acks=1 retries=4 max.in.flight.requests.per.connection=5 linger.ms=5 enable.idempotence=false",
        (
            "max-in-flight-requests-per-connection (Spring Boot does not bind",
            "properties they would have one, as linger.ms",
        ),
    ),
    SettingsFile(
        "idempotence-not-bound.yml",
        _spring("producer:", "  acks: all", "  enable-idempotence: false"),
        ALL,
        "acks=all enable.idempotence=true",
        ("enable-idempotence (Spring Boot does not bind", "as enable.idempotence"),
    ),
    SettingsFile(
        "transactional-id.yml",
        _spring("producer:", "  transactional-id: payments"),
        ALL,
        "enable.idempotence=true !transactional.id",
        ("transactional-id (Spring Boot does not bind", "Spring Boot's own transaction-id-prefix"),
    ),
    SettingsFile(
        "transaction-prefix.yml",
        _spring("producer:", "  transaction-id-prefix: pay-${random.uuid}-"),
        ALL,
        "enable.idempotence=true transaction.timeout.ms=60000",
        ("its value does not matter",),
    ),
    SettingsFile(
        "transaction-prefix-unknown.yml",
        _spring("producer:", "  transaction-id-prefix: ${TX}"),
        None,
        "",
        ("transactional.id is a placeholder of Spring or Maven without a value (${TX})",),
        refused=True,
    ),
    SettingsFile(
        "relaxed.yml",
        _spring("producer:", "  Acks: all", "  batch_size: 32KB", "  compressionType: zstd", "  BUFFER-MEMORY: 64MB"),
        ALL,
        "acks=all batch.size=32768 compression.type=zstd queue.buffering.max.kbytes=65536",
        (),
    ),
    SettingsFile(
        "dots-are-no-dashes.properties",
        "spring.kafka.producer.acks=1\nspring.kafka.producer.batch.size=1\nspring.kafka.producer.max.block.ms=1\n",
        NOTHING,
        "acks=1 batch.size=16384",
        ("spring.kafka.producer.batch.size", "Spring Boot's own batch-size"),
    ),
    SettingsFile(
        "below-properties.properties",
        "spring.kafka.producer.acks=0\nspring.kafka.producer.properties.acks=all\n"
        "spring.kafka.properties.max.in.flight.requests.per.connection=1\n"
        "spring.kafka.producer.Properties[enable.idempotence]=false\n",
        IN_ORDER,
        "acks=all enable.idempotence=false max.in.flight.requests.per.connection=1",
        (),
    ),
    SettingsFile(
        "directly-below-kafka.properties",
        "spring.kafka.acks=0\nspring.kafka.producer.retries=7\n",
        ALL,
        "acks=all retries=7",
        ("spring.kafka.acks (Spring Boot does not bind", "Spring Boot's own acks"),
    ),
    SettingsFile(
        "default.yml",
        _spring("producer:", "  acks: ${ORDERS_ACKS:1}", "  client-id: ${app}-x", "bootstrap-servers: ${BROKERS}"),
        NOTHING,
        "acks=1",
        ("acks: the default of the placeholder ${ORDERS_ACKS}", "client-id (the file does not have the value"),
    ),
    SettingsFile(
        "placeholder-of-the-same-file.yml",
        "app:\n  kafka:\n    producer:\n      acks: 0\n"
        + _spring("producer:", "  acks: ${app.kafka.producer.acks:all}"),
        NO_COPIES,
        "acks=0",
        (),
    ),
    SettingsFile(
        "no-default-where-no-promise-depends.yml",
        _spring("producer:", "  acks: 1", "  batch-size: ${BATCH}", "  properties: {linger.ms: '${LINGER}'}"),
        NOTHING,
        "acks=1 batch.size=16384 linger.ms=5",
        ("producer.batch-size, spring.kafka.producer.properties.linger.ms (the file does not have the value, and no",),
    ),
    SettingsFile(
        "empty-values.yml",
        _spring("properties: {retries: 0, acks: 1}", "producer:", "  retries:", "  batch-size: '${B:}'"),
        NO_COPIES,
        "retries=0 acks=1 batch.size=16384",
        (),
    ),
    SettingsFile(
        "overridden-placeholder.yml",
        _spring("properties: {acks: '${NOWHERE}'}", "producer: {properties: {acks: 0}}"),
        NO_COPIES,
        "acks=0",
        (),
    ),
    SettingsFile(
        "names-of-librdkafka.yml",
        _spring("producer:", "  acks: 1", "  properties: {max.in.flight: 1, message.timeout.ms: 9}"),
        NOTHING,
        "acks=1 max.in.flight.requests.per.connection=5 delivery.timeout.ms=120000",
        ("left out: max.in.flight, message.timeout.ms (librdkafka's property: the Java client does not use it)",),
    ),
    SettingsFile(
        "serializers.yml",
        _spring("producer:", "  properties: {spring.json.add.type.headers: false, avro.remove.java.properties: true}"),
        ALL,
        "acks=all",
        ("spring.json.add.type.headers, avro.remove.java.properties (a serializer's property: no part in delivery)",),
    ),
    SettingsFile(
        "logging.yml",
        "logging.level: {org.apache.kafka.clients.producer: WARN}\nmanagement: {kafka: {producer: {acks: 0}}}\n"
        + _spring("producer:", "  acks: all"),
        ALL,
        "acks=all",
        (),
    ),
    SettingsFile(
        "no-default.yml",
        _spring("producer:", "  acks: ${ORDERS_ACKS}"),
        None,
        "",
        ("acks is a placeholder of Spring or Maven without a value (${ORDERS_ACKS})", "Write the value"),
        refused=True,
    ),
    SettingsFile(
        "filtered.yml",
        "info: {app: @project.name@}\n" + _spring("client-id: @project.artifactId@", "producer:", "  retries: 3"),
        ALL,
        "retries=3 acks=all",
        (),
    ),
    SettingsFile(
        "filtered-where-it-matters.yml",
        _spring("producer:", "  acks: @acks@"),
        None,
        "",
        ("acks is a placeholder", "(@acks@)"),
        refused=True,
    ),
    SettingsFile(
        "own-prefix.yml",
        "shop:\n  kafka:\n    order-producer:\n      acks: 0\n" + _spring("bootstrap-servers: b:9092"),
        None,
        "",
        ("shop.kafka.order-producer.acks", "promises is not known", "ProducerConfig values"),
        refused=True,
    ),
    SettingsFile(
        "own-prefix-beside.properties",
        "spring.kafka.producer.acks=all\napp.kafkaProducer.enableIdempotence=false\n",
        None,
        "",
        ("app.kafkaProducer.enableIdempotence", "promises is not known"),
        refused=True,
    ),
    SettingsFile(
        "cloud-stream.yml",
        "spring:\n  cloud:\n    stream:\n      kafka:\n        binder:\n          required-acks: 1\n"
        "  kafka:\n    producer:\n      acks: all\n",
        None,
        "",
        ("spring.cloud.stream.kafka.binder.required-acks", "promises is not known"),
        refused=True,
    ),
    SettingsFile(
        "template.yml",
        _spring("template:", "  transaction-id-prefix: t-", "producer:", "  acks: all"),
        None,
        "",
        ("spring.kafka.template.transaction-id-prefix", "promises is not known"),
        refused=True,
    ),
    SettingsFile(
        "harmless-template.yml",
        _spring("template:", "  default-topic: orders", "producer:", "  acks: all"),
        ALL,
        "acks=all",
        ("spring.kafka.template (not about the producer)",),
    ),
    SettingsFile(
        "under-a-condition.yml",
        _spring("producer:", "  acks: all")
        + "---\nspring.config.activate.on-profile: cheap\nspring.kafka.producer.acks: 0\n",
        ALL,
        "acks=all",
        ("left out: spring.kafka.producer.acks (in a document that applies only under a condition",),
    ),
    SettingsFile(
        "active-condition.yml",
        "spring.profiles.active: cheap\n"
        + _spring("producer:", "  acks: all")
        + "---\nspring.config.activate.on-profile: cheap\nspring.kafka.producer.acks: 0\n",
        NO_COPIES,
        "acks=0",
        (),
    ),
    SettingsFile(
        "negated-condition.yml",
        "spring.profiles.include: [eu, cheap]\n"
        + _spring("producer:", "  acks: all")
        + '---\nspring.config.activate.on-profile: "!prod"\nspring.kafka.producer.acks: 1\n'
        + '---\nspring.config.activate.on-profile: "!cheap"\nspring.kafka.producer.acks: 0\n'
        + "---\nspring.config.activate.on-profile: [us, eu]\nspring.kafka.producer.retries: 3\n"
        + "---\nspring.config.activate: {on-cloud-platform: k8s, on-profile: us}\nspring.kafka.producer.retries: 0\n",
        NOTHING,
        "acks=1 retries=3",
        (
            "left out: spring.kafka.producer.acks, spring.kafka.producer.retries (in a document",
            "so Spring Boot also reads files called application-cheap, application-eu (.yml or .properties)",
        ),
    ),
    SettingsFile(
        "open-profiles-placeholder.yml",
        "spring.profiles.active: '${ENV:prod}'\n" + _spring("producer:", "  acks: all"),
        ALL,
        "acks=all",
        ("the file leaves open which of Spring's profiles are active, so Spring Boot also reads files called",),
    ),
    SettingsFile(
        "open-profiles-maven.yml",
        "spring.profiles.active: '@spring.profiles.active@'\n" + _spring("producer:", "  acks: all"),
        ALL,
        "acks=all",
        ("the file leaves open which of Spring's profiles are active, so Spring Boot also reads files called",),
    ),
    SettingsFile(
        "open-profiles-group.yml",
        "spring.profiles.group.prod: [eu, big]\n" + _spring("producer:", "  acks: all"),
        ALL,
        "acks=all",
        ("the file leaves open which of Spring's profiles are active, so Spring Boot also reads files called",),
    ),
    SettingsFile(
        "open-profiles-default.yml",
        "spring.profiles.default: prod\n" + _spring("producer:", "  acks: all"),
        ALL,
        "acks=all",
        ("the file leaves open which of Spring's profiles are active, so Spring Boot also reads files called",),
    ),
    SettingsFile(
        "two-spellings.properties",
        "spring.kafka.producer.batch-size=1\nspring.kafka.producer.batchSize=2\n",
        None,
        "",
        ("are one property for Spring Boot",),
        refused=True,
    ),
    SettingsFile(
        "consumer.yml",
        _spring("consumer:", "  groupId: ${GROUP}", "  auto-offset-reset: earliest", "  session-timeout-ms: 9"),
        None,
        "auto.offset.reset=earliest enable.auto.commit=false !session.timeout.ms !group.id",
        ("session-timeout-ms (Spring Boot does not bind", "as session.timeout.ms"),
        field="consumer_config",
    ),
    SettingsFile(
        "listener.yml",
        _spring("consumer:", "  enable-auto-commit: off", "listener:", "  ack-mode: manual_immediate", "  acks: all"),
        None,
        "enable.auto.commit=false",
        ("your listener says when an offset is committed", "listener.acks (Spring Boot does not bind"),
        field="consumer_config",
    ),
    SettingsFile(
        "import.yml",
        "spring.config.import: optional:file:./orders.yml\n" + _spring("producer:", "  acks: all"),
        None,
        "",
        (
            "producer_config has spring.config.import: what Spring Boot imports is not in this file, and "
            "counts before it",
            "promises is not known",
        ),
        refused=True,
    ),
    SettingsFile(
        "import-list.yml",
        "spring: {config: {import: ['configtree:/run/secrets/', 'optional:configserver:']}}\n---\n"
        + _spring("producer:", "  acks: all"),
        None,
        "",
        ("spring.config.import[0]", "promises is not known"),
        refused=True,
    ),
    SettingsFile(
        "import.properties",
        "spring.config.import=optional:configserver:http://c:8888\nspring.kafka.producer.acks=all\n",
        None,
        "",
        ("has spring.config.import",),
        refused=True,
    ),
    SettingsFile(
        "server-of-settings.yml",
        "spring.cloud.config.uri: http://c:8888\n" + _spring("producer:", "  acks: all"),
        None,
        "",
        ("has spring.cloud.config.uri", "promises is not known"),
        refused=True,
    ),
    SettingsFile(
        "nacos.yml",
        "spring.cloud.nacos.config.server-addr: n:8848\n" + _spring("producer:", "  acks: all"),
        None,
        "",
        ("has spring.cloud.nacos.config.server-addr",),
        refused=True,
    ),
    SettingsFile(
        "import-nobody-knows.yml",
        _spring("producer:", "  acks: all")
        + "---\nspring.config: {activate: {on-profile: prod & eu}, import: file:x.yml}\n",
        None,
        "",
        ("has spring.config.import",),
        refused=True,
    ),
    SettingsFile(
        "import-elsewhere.yml",
        _spring("producer:", "  acks: all")
        + "---\nspring.config: {activate: {on-profile: prod}, import: file:x.yml}\n",
        ALL,
        "acks=all",
        (),
    ),
    SettingsFile(
        "no-server.yml",
        "spring.cloud: {config: {enabled: false}, gateway: {x: 1}}\n" + _spring("producer:", "  acks: all"),
        ALL,
        "acks=all",
        (),
    ),
    SettingsFile(
        "application-prod.yml",
        _spring("producer:", "  acks: all"),
        None,
        "",
        (
            "is a profile's file, application-prod.yml: Spring Boot lays it over application.yml, which was not given",
            "with a line --- between them",
        ),
        refused=True,
    ),
    SettingsFile(
        "application-eu.properties",
        "spring.kafka.producer.acks=all\n",
        None,
        "",
        ("over application.properties, which was not given", "with a line #--- between them"),
        refused=True,
    ),
    SettingsFile(
        "application-eu.yaml",
        "spring.kafka.consumer.auto-offset-reset: earliest\n",
        None,
        "",
        ("over application.yaml, which was not given",),
        field="consumer_config",
        refused=True,
    ),
    SettingsFile(
        "on-a-cloud.yml",
        _spring("producer:", "  acks: all")
        + "---\nspring.config.activate.on-cloud-platform: kubernetes\nspring.kafka.producer.acks: 0\n",
        None,
        "",
        ("it is not known here whether it applies", "a cloud platform"),
        refused=True,
    ),
    SettingsFile(
        "placeholder-under-a-condition.yml",
        "orders.acks: all\nspring.kafka.producer.acks: ${orders.acks}\n---\n"
        "spring.config.activate.on-profile: a | b\norders.acks: 0\n",
        None,
        "",
        ("it is not known here whether it applies", "with orders.acks"),
        refused=True,
    ),
    SettingsFile(
        "own-tree-under-a-condition.yml",
        _spring("producer:", "  acks: all")
        + "---\nspring.config.activate.on-profile: a | b\napp.kafka.producer.acks: 0\n",
        None,
        "",
        ("it is not known here whether it applies",),
        refused=True,
    ),
    SettingsFile(
        "upper-case.yml",
        _spring("producer:", "  acks: ALL"),
        None,
        "",
        ("acks is 'ALL', and the Java client does not start with it; allowed: all, -1, 0, 1, in this spelling",),
        refused=True,
    ),
    SettingsFile(
        "duration-of-kafka.yml",
        _spring("producer:", "  properties: {delivery.timeout.ms: 30s}"),
        None,
        "",
        (
            "delivery.timeout.ms is '30s', and the Java client does not start with it; allowed: a whole "
            "number of milliseconds",
        ),
        refused=True,
    ),
    SettingsFile(
        "durations.yml",
        _spring("consumer:", "  auto-commit-interval: 500MS", "  heartbeat-interval: PT1.5S", "  fetch-max-wait: 3"),
        None,
        "auto.commit.interval.ms=500 heartbeat.interval.ms=1500 fetch.wait.max.ms=3",
        (),
        field="consumer_config",
    ),
)

_WORKER = "key.converter=x\nvalue.converter=x\nbootstrap.servers=b:9092\ngroup.id=g\n"
_WORKER_RESOURCE = (
    "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnect\nspec:\n  config:\n    producer.linger.ms: 7\n"
    "    producer.acks: 0\n    connector.client.config.override.policy: {}\n---\n"
)
_CONNECTOR_RESOURCE = (
    "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\nspec: {class: x, config: {producer.override.acks: 1}}\n"
)
_EXACTLY_ONCE_RESOURCE = (
    "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnect\nspec: {config: {exactly.once.source.support: enabled}}\n---\n"
)
CONNECT = (
    SettingsFile(
        "nested.json",
        '{"config": {"connector.class": "x.Y", "producer": {"override": {"acks": "0"}}}}',
        None,
        "",
        ("producer has names below it",),
        refused=True,
    ),
    SettingsFile(
        "worker.json",
        '{"key.converter": "x", "value.converter": "x", "acks": "all", "producer.linger.ms": "4"}',
        IN_ORDER,
        "enable.idempotence=false linger.ms=4",
        ("left out: acks (without producer. before them",),
    ),
    SettingsFile(
        "worker-policy-none.properties",
        f"{_WORKER}connector.client.config.override.policy=None\n",
        IN_ORDER,
        "acks=all",
        ("connector.client.config.override.policy=None: a connector with producer.override. settings does not start",),
    ),
    SettingsFile(
        "worker-policy-allowlist.properties",
        f"{_WORKER}connector.client.config.override.policy=Allowlist\n"
        f"connector.client.config.override.allowlist=acks, linger.ms\n",
        IN_ORDER,
        "acks=all",
        ("policy=Allowlist: a connector may override only acks, linger.ms",),
    ),
    SettingsFile(
        "worker-policy-class.properties",
        f"{_WORKER}connector.client.config.override.policy=org.example.Ours\n",
        IN_ORDER,
        "acks=all",
        ("names a class of your own: whether a connector may override these settings is not known",),
    ),
    SettingsFile(
        "worker-policy-default.properties",
        _WORKER,
        IN_ORDER,
        "acks=all",
        ("before Kafka 3.0 a worker without connector.client.config.override.policy does not start such a connector",),
    ),
    SettingsFile(
        "override-policy.json",
        '{"connector.class": "x.Y", "connector.client.config.override.policy": "All", "producer.override.acks": "1"}',
        ORDER,
        "acks=1",
        (
            "policy=All, the default since Kafka 3.0; with None, the default before, the connector does not start",
            "is a worker's setting: it has no effect in a connector's configuration",
        ),
    ),
    SettingsFile(
        "strimzi-connect-and-connector.yaml",
        _WORKER_RESOURCE.format("All") + _CONNECTOR_RESOURCE,
        ORDER,
        "acks=1 linger.ms=7 enable.idempotence=false",
        (),
    ),
    SettingsFile(
        "strimzi-connector-of-another.yaml",
        _WORKER_RESOURCE.format("All").replace("spec:", "metadata: {name: east}\nspec:")
        + _CONNECTOR_RESOURCE.replace("spec:", "metadata: {labels: {strimzi.io/cluster: west}}\nspec:"),
        None,
        "",
        ("the KafkaConnector belongs to another KafkaConnect (label strimzi.io/cluster) than the one beside it",),
        refused=True,
    ),
    SettingsFile(
        "strimzi-connect-refuses.yaml",
        _WORKER_RESOURCE.format("None") + _CONNECTOR_RESOURCE,
        None,
        "",
        (
            "the connector does not start: its worker has connector.client.config.override.policy=None, "
            "which does not allow producer.override.acks",
        ),
        refused=True,
    ),
    SettingsFile(
        "strimzi-connect-unknown.yaml",
        _WORKER_RESOURCE.format("org.example.Ours") + _CONNECTOR_RESOURCE,
        None,
        "",
        ("so whether producer.override.acks counts is not known",),
        refused=True,
    ),
    SettingsFile(
        "strimzi-nested.yaml",
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnect\nspec: {config: {producer: {acks: 0}}}\n",
        None,
        "",
        ("producer has names below it",),
        refused=True,
    ),
    SettingsFile(
        "worker.properties",
        f"{_WORKER}producer.acks=1\nproducer.linger.ms=40\nconsumer.auto.offset.reset=latest\n",
        ORDER,
        "acks=1 linger.ms=40 enable.idempotence=false max.in.flight.requests.per.connection=1",
        ("Kafka Connect gives its producers, where the file says nothing: enable.idempotence=false", "Connect's own"),
    ),
    SettingsFile(
        "worker-defaults.properties",
        _WORKER,
        IN_ORDER,
        "acks=all enable.idempotence=false max.in.flight.requests.per.connection=1 delivery.timeout.ms=2147483647",
        (),
    ),
    SettingsFile(
        "worker-without-prefix.properties",
        f"{_WORKER}enable.idempotence=true\nacks=0\n",
        IN_ORDER,
        "acks=all enable.idempotence=false",
        ("left out: enable.idempotence, acks (without producer. before them, no producer of Connect reads them)",),
    ),
    SettingsFile(
        "worker-with-overrides.properties",
        f"{_WORKER}producer.override.acks=0\n",
        IN_ORDER,
        "acks=all",
        ("producer.override.acks (a worker does not read them",),
    ),
    SettingsFile(
        "worker-idempotent.properties",
        f"{_WORKER}producer.enable.idempotence=true\nproducer.request.timeout.ms=2147483647\n",
        ALL,
        "enable.idempotence=true request.timeout.ms=900000",
        ("an arm with it exercises 900000",),
    ),
    SettingsFile(
        "worker-exactly-once.properties",
        f"{_WORKER}exactly.once.source.support=enabled\n",
        ALL,
        "enable.idempotence=true transactional.id=connect-cluster",
        ("exactly.once.source.support=enabled: for source connectors only, Kafka Connect sets enable.idempotence",),
    ),
    SettingsFile(
        "worker-exactly-once-overridden.properties",
        f"{_WORKER}exactly.once.source.support=enabled\nproducer.enable.idempotence=false\n"
        "producer.transactional.id=mine\n",
        ALL,
        "enable.idempotence=true transactional.id=connect-cluster",
        ("left out: enable.idempotence, transactional.id (Kafka Connect sets it itself under exactly.once.source",),
    ),
    SettingsFile(
        "worker-transactions.properties",
        f"{_WORKER}producer.transactional.id=x\n",
        None,
        "",
        ("Kafka Connect without exactly.once.source.support=enabled begins no transaction",),
        refused=True,
    ),
    SettingsFile(
        "connector-transactions.properties",
        "name=s\nconnector.class=x.Y\nproducer.override.transactional.id=x\n",
        None,
        "",
        ("has a transactional.id, but a worker without exactly.once.source.support=enabled begins no transaction",),
        refused=True,
    ),
    SettingsFile(
        "strimzi-exactly-once.yaml",
        _EXACTLY_ONCE_RESOURCE + _CONNECTOR_RESOURCE.replace("acks: 1", "transactional.id: x"),
        ALL,
        "transactional.id=connect-cluster enable.idempotence=true",
        ("for source connectors only",),
    ),
    SettingsFile(
        "strimzi-exactly-once-sink.yaml",
        _EXACTLY_ONCE_RESOURCE + _CONNECTOR_RESOURCE.replace("{producer", "{topics: a, producer"),
        ORDER,
        "acks=1 enable.idempotence=false !transactional.id",
        (),
    ),
    SettingsFile(
        "worker-placeholder.properties",
        f"{_WORKER}producer.acks=${{file:/a:b}}\n",
        None,
        "",
        ("acks is a placeholder",),
        refused=True,
    ),
    SettingsFile(
        "sink-worker.properties",
        f"{_WORKER}consumer.auto.offset.reset=latest\nproducer.acks=0\n",
        None,
        "auto.offset.reset=latest enable.auto.commit=false",
        (),
        field="consumer_config",
    ),
    SettingsFile(
        "source.json",
        '{"name": "s", "config": {"connector.class": "x.Y", "db.password": "hunter2", "producer.override.acks": "1"}}',
        ORDER,
        "acks=1 enable.idempotence=false",
        (
            "connector.class, db.password (Connect's own)",
            "its worker's own producer. settings apply where these say nothing",
        ),
    ),
    SettingsFile(
        "source.properties",
        "name=s\nconnector.class=x.Y\nproducer.override.enable.idempotence=true\nproducer.acks=0\n",
        ALL,
        "acks=all enable.idempotence=true",
        ("producer.acks",),
    ),
    SettingsFile(
        "mirror-source.json",
        '{"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "consumer.poll.timeout.ms": 9, '
        '"consumer.override.isolation.level": "read_uncommitted", '
        '"source.cluster.isolation.level": "read_uncommitted", "consumer.isolation.level": '
        '"read_uncommitted", "source.consumer.isolation.level": "read_committed", "enable.auto.commit": "true"}',
        None,
        "isolation.level=read_committed enable.auto.commit=false auto.offset.reset=earliest",
        (
            "consumer.override.isolation.level",
            "MirrorMaker gives its consumers only names that begin with consumer. or source.consumer.",
        ),
        field="consumer_config",
    ),
    SettingsFile(
        "source-as-consumer.json",
        '{"connector.class": "x.Source", "consumer.override.isolation.level": "read_committed"}',
        None,
        "",
        ("is the configuration of a connector that is no sink (it has no topics)", "its consumer is not known"),
        field="consumer_config",
        refused=True,
    ),
    SettingsFile(
        "sink-as-consumer.json",
        '{"connector.class": "x.Sink", "topics": "a", "consumer.override.auto.offset.reset": "latest"}',
        None,
        "auto.offset.reset=latest enable.auto.commit=false",
        (),
        field="consumer_config",
    ),
    SettingsFile(
        "sink.json",
        '{"connector.class": "x.Sink", "topics": "a", "acks": "0"}',
        IN_ORDER,
        "acks=all",
        ("writes nothing but the dead letter queue", "without producer.override. before them"),
    ),
    SettingsFile(
        "worker-topics.properties", _WORKER, None, "", ("a Kafka Connect worker's file",), "topic_config", refused=True
    ),
    SettingsFile(
        "strimzi-connect.yaml",
        "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnect\nspec:\n  config:\n    producer.acks: 0\n",
        NO_COPIES,
        "acks=0 enable.idempotence=false",
        (),
    ),
    SettingsFile(
        "strimzi-connector.yaml",
        "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnector\nspec:\n  class: x\n  config:\n"
        "    producer.override.acks: 0\n",
        NO_COPIES,
        "acks=0",
        (),
    ),
)

_FLOW = "clusters=east, west\neast->west.enabled=true\neast.bootstrap.servers=e:9092\nwest.bootstrap.servers=w:9092\n"
MIRROR_MAKER = (
    SettingsFile(
        "mm2.properties",
        f"{_FLOW}west.producer.acks=1\neast.consumer.auto.offset.reset=latest\n",
        ORDER,
        "acks=1 enable.idempotence=false max.in.flight.requests.per.connection=1",
        ("Kafka Connect, of which MirrorMaker is made,",),
    ),
    SettingsFile(
        "mm2-without-effect.properties",
        f"{_FLOW}producer.acks=0\neast.producer.acks=0\neast->west.producer.acks=0\n",
        IN_ORDER,
        "acks=all",
        ("producer.acks, east.producer.acks, east->west.producer.acks (MirrorMaker gives the producers of east->west",),
    ),
    SettingsFile(
        "mm2-override.properties",
        f"{_FLOW}west.producer.acks=0\neast->west.producer.override.acks=all\n",
        IN_ORDER,
        "acks=all",
        (),
    ),
    SettingsFile(
        "mm2-transactions.properties",
        f"{_FLOW}east->west.producer.override.transactional.id=x\n",
        None,
        "",
        ("has a transactional.id, but MirrorMaker begins no transaction",),
        refused=True,
    ),
    SettingsFile(
        "mm2-two-flows.properties",
        f"{_FLOW}west->east.enabled=true\nwest.producer.acks=0\n",
        None,
        "",
        ("gives the producers of east->west, west->east different settings",),
        refused=True,
    ),
    SettingsFile(
        "mm2-disabled.properties",
        "clusters=a,b\na->b.enabled=false\nb.producer.acks=all\n",
        None,
        "",
        ("without an enabled flow",),
        refused=True,
    ),
)

_JAVA = "key.serializer=x\n"
_LOG = (
    "[2026-01-02 03:04:05,678] INFO ProducerConfig values: \n\tacks = -1\n\tbootstrap.servers = [b:9092]\n"
    "\tcompression.type = none\n\tenable.idempotence = {}\n\tinterceptor.classes = []\n\tinternal.auto = false\n"
    "\tkey.serializer = class x.Y\n\tmax.in.flight.requests.per.connection = 5\n{}\tretries = 2147483647\n"
    "\tsasl.jaas.config = [hidden]\n\tsasl.login.refresh.buffer.seconds = 300\n\tssl.protocol = TLSv1.3\n"
    "\ttransactional.id = null\n (org.apache.kafka.clients.producer.ProducerConfig:370)\n"
    "[2026-01-02 03:04:05,679] INFO Kafka version: 3.0.0 (org.apache.kafka.common.utils.AppInfoParser)\n"
)
PRODUCER_LOG = _LOG.format("true", "\tpartitioner.adaptive.partitioning.enable = true\n")
"""What the Java client since 3.3 logs of a producer."""
OLD_PRODUCER_LOG = _LOG.format("true", "")
"""What an older one logs. In 3.0.0 and 3.1.0 enable.idempotence may not be in force."""
CLIENTS = (
    SettingsFile(
        "too-many-retries.properties",
        f"{_JAVA}retries=2147483648\n",
        None,
        "",
        ("retries is '2147483648', and the Java client does not start with it; allowed: 0 to 2147483647",),
        refused=True,
    ),
    SettingsFile(
        "too-many-bits-librdkafka.properties",
        "message.timeout.ms=4294967297\n",
        None,
        "",
        ("message.timeout.ms is '4294967297', and librdkafka reads its last 32 bits alone",),
        refused=True,
    ),
    SettingsFile(
        "max-block.properties",
        f"{_JAVA}max.block.ms=abc\n",
        None,
        "",
        ("max.block.ms is 'abc', and the Java client does not start with it; allowed: a whole number of milliseconds",),
        refused=True,
    ),
    SettingsFile(
        "in-flight.properties",
        f"{_JAVA}max.in.flight.requests=1\n",
        None,
        "",
        ("did you mean max.in.flight.requests.per.connection?",),
        refused=True,
    ),
    SettingsFile(
        "brokers.properties",
        f"{_JAVA}brokers=b:9092\n",
        None,
        "",
        ("brokers is no producer property of Kafka; did you mean bootstrap.servers?",),
        refused=True,
    ),
    SettingsFile(
        "topic.properties",
        f"{_JAVA}topic=orders\n",
        None,
        "",
        ("topic is no producer property of Kafka; remove it, or correct its name",),
        refused=True,
    ),
    SettingsFile(
        "timeout.properties",
        f"{_JAVA}timeout=9\n",
        None,
        "",
        ("timeout is no producer property of Kafka; remove it, or correct its name",),
        refused=True,
    ),
    SettingsFile(
        "share.properties",
        "group.id=g\nisolation.level=read_committed\nenable.auto.commit=false\nshare.acknowledgement.mode=explicit\n",
        None,
        "",
        ("share.acknowledgement.mode is a share consumer's, which gets records again and in no order (KIP-932)",),
        field="consumer_config",
        refused=True,
    ),
    SettingsFile(
        "share-protocol.properties",
        "group.id=g\ngroup.protocol=share\n",
        None,
        "",
        ("group.protocol is 'share'; allowed: classic, consumer",),
        field="consumer_config",
        refused=True,
    ),
    SettingsFile(
        "producer.log",
        PRODUCER_LOG,
        ALL,
        "acks=all enable.idempotence=true retries=2147483647 !transactional.id",
        ("internal.auto (no part in what is promised)", "bootstrap.servers, sasl.jaas.config"),
    ),
    SettingsFile(
        "before-3.log",
        _LOG.format("false", ""),
        KEPT,
        "acks=all enable.idempotence=false",
        (),
    ),
    SettingsFile(
        "not-known.log",
        OLD_PRODUCER_LOG,
        None,
        "",
        (
            "the Java client 3.0.0 and 3.1.0 logs that although it is not in force, unless the application sets it",
            "name another version",
        ),
        refused=True,
    ),
    SettingsFile(
        "twice.log",
        PRODUCER_LOG * 2,
        None,
        "",
        ("is a log with 2 times ProducerConfig values; allowed: 1",),
        refused=True,
    ),
    SettingsFile(
        "producer-as-consumer.log",
        PRODUCER_LOG,
        None,
        "",
        ("is a log with 0 times ConsumerConfig values",),
        field="consumer_config",
        refused=True,
    ),
    SettingsFile(
        "consumer.log",
        "12:00 INFO o.a.k.c.ConsumerConfig - ConsumerConfig values: \n    auto.offset.reset = earliest\n"
        "    enable.auto.commit = false\n    group.instance.id = null\n    isolation.level = read_committed\n"
        "    share.acquire.mode = BATCH_OPTIMIZED\n"
        "    partition.assignment.strategy = [class x.RangeAssignor, class x.CooperativeStickyAssignor]\n"
        "12:00 INFO ProducerConfig values: \n    acks = 0\n",
        None,
        "auto.offset.reset=earliest enable.auto.commit=false isolation.level=read_committed !group.instance.id "
        "partition.assignment.strategy=range !acks",
        (),
        field="consumer_config",
    ),
    SettingsFile(
        "log-without-head.properties",
        "\n".join(PRODUCER_LOG.splitlines()[1:-2]),
        None,
        "",
        ("transactional.id is null, as the Java client logs it where there is no value; leave it out, or give",),
        refused=True,
    ),
    SettingsFile(
        "changed.log",
        PRODUCER_LOG + "acks=0\n",
        None,
        "",
        ("is a log of a client with a line that the client does not log",),
        refused=True,
    ),
    SettingsFile("comment.properties", f"# ProducerConfig values:\n{_JAVA}acks=1\n", NOTHING, "acks=1", ()),
    SettingsFile(
        "password-on-a-line-of-its-own.properties",
        f"{_JAVA}sasl.password=\nhunter2\n",
        None,
        "",
        ("a name (not shown: it may be part of a secret",),
        refused=True,
    ),
    SettingsFile(
        "password-on-a-line-of-a-consumer.properties",
        f"{_JAVA}sasl.password=\nhunter2\n",
        None,
        "",
        ("a name (not shown: it may be part of a secret",),
        field="consumer_config",
        refused=True,
    ),
    SettingsFile(
        "lost-line-break.properties",
        f"{_JAVA}acks=all sasl.password=hunter2\n",
        None,
        "",
        ("producer_config: the value of acks may hold a password (not shown); write each property on a line",),
        refused=True,
    ),
    SettingsFile(
        "lost-line-break-librdkafka.properties",
        "request.required.acks=1 sasl.username hunter2\n",
        None,
        "",
        ("the value of request.required.acks may hold a password",),
        refused=True,
    ),
    SettingsFile(
        "lost-line-break-spring.properties",
        "spring.kafka.producer.acks=all spring.kafka.properties.sasl.jaas.config=hunter2\n",
        None,
        "",
        ("the value of acks may hold a password",),
        refused=True,
    ),
    SettingsFile(
        "lost-line-break-of-a-topic.properties",
        "min.insync.replicas=2 ssl.key.password=hunter2\n",
        None,
        "",
        ("topic_config: the value of min.insync.replicas may hold a password",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "ack-mode.properties",
        "spring.kafka.consumer.group-id=g\nspring.kafka.listener.ack-mode=batch sasl.password=hunter2\n",
        None,
        "enable.auto.commit=false",
        (),
        field="consumer_config",
    ),
    SettingsFile(
        "misspelt.properties",
        f"{_JAVA}retires=3\n",
        None,
        "",
        ("retires is no producer property of Kafka; did you mean retries?",),
        refused=True,
    ),
    SettingsFile(
        "octal-librdkafka.properties",
        "request.required.acks=all\nmessage.send.max.retries=08\n",
        None,
        "",
        ("message.send.max.retries is '08', and librdkafka reads it as octal or hexadecimal",),
        refused=True,
    ),
    SettingsFile(
        "upper-case.properties",
        f"{_JAVA}acks=All\n",
        None,
        "",
        ("acks is 'All', and the Java client does not start with it",),
        refused=True,
    ),
    SettingsFile(
        "upper-case-librdkafka.properties",
        "request.required.acks=ALL\nenable.idempotence=1\n",
        ALL,
        "acks=all enable.idempotence=true",
        (),
    ),
    SettingsFile(
        "idempotence-off-librdkafka.properties",
        "request.required.acks=all\nenable.idempotence=F\n",
        KEPT,
        "enable.idempotence=false",
        (),
    ),
    SettingsFile(
        "boolean.properties",
        f"{_JAVA}enable.idempotence=1\n",
        None,
        "",
        ("enable.idempotence is '1', and the Java client does not start with it; allowed: true, false",),
        refused=True,
    ),
    SettingsFile(
        "compression.properties",
        f"{_JAVA}compression.type=GZIP\n",
        None,
        "",
        ("compression.type is 'GZIP', and the Java client does not start with it",),
        refused=True,
    ),
    SettingsFile(
        "seconds-librdkafka.properties",
        "message.timeout.ms=30s\n",
        None,
        "",
        (
            "message.timeout.ms is '30s', and librdkafka reads only the number at its beginning, 30, and no "
            "unit; write a whole number of milliseconds",
        ),
        refused=True,
    ),
    SettingsFile(
        "hexadecimal-librdkafka.properties",
        "message.send.max.retries=0x0\n",
        None,
        "",
        ("message.send.max.retries is '0x0', and librdkafka reads it as octal or hexadecimal",),
        refused=True,
    ),
    SettingsFile(
        "schema-registry.properties",
        "bootstrap.servers=b:9092\nkey.serializer=x\nacks=all\nschema.registry.url=https://r\n"
        "basic.auth.credentials.source=USER_INFO\n"
        "basic.auth.user.info=u:hunter2\nauto.register.schemas=false\nuse.latest.version=true\n"
        "value.subject.name.strategy=x.RecordNameStrategy\nnormalize.schemas=true\nmax.schemas.per.subject=9\n"
        "rule.executors=x\nproxy.host=p\nid.compatibility.strict=false\nhttp.read.timeout.ms=9\n",
        ALL,
        "acks=all",
        (
            "schema.registry.url, basic.auth.credentials.source, basic.auth.user.info (where a cluster is",
            "auto.register.schemas, use.latest.version, value.subject.name.strategy, normalize.schemas, "
            "max.schemas.per.subject, rule.executors, proxy.host, id.compatibility.strict, "
            "http.read.timeout.ms (a serializer's property",
        ),
    ),
    SettingsFile(
        "schema-registry-librdkafka.properties",
        "sasl.mechanisms=PLAIN\nacks=1\nschema.registry.url=https://r\nbasic.auth.user.info=u:hunter2\n",
        NOTHING,
        "acks=1",
        (),
    ),
    SettingsFile(
        "isolation-upper.properties",
        "isolation.level=READ_UNCOMMITTED\nenable.auto.offset.store=F\nauto.offset.reset=EARLIEST\n",
        None,
        "isolation.level=read_uncommitted enable.auto.offset.store=false auto.offset.reset=earliest",
        (),
        field="consumer_config",
    ),
    SettingsFile(
        "client.properties",
        "bootstrap.servers=c:9092\nsecurity.protocol=SASL_SSL\nsasl.jaas.config=hunter2\nsession.timeout.ms=45000\n"
        "acks=all\n",
        ALL,
        "acks=all delivery.timeout.ms=120000 !session.timeout.ms",
        ("session.timeout.ms (a consumer's property: a producer does not use it)",),
    ),
    SettingsFile(
        "client-librdkafka.properties",
        "bootstrap.servers=c:9092\nsasl.mechanisms=PLAIN\nsasl.password=hunter2\nsession.timeout.ms=45000\nacks=1\n",
        NOTHING,
        "acks=1 delivery.timeout.ms=300000 enable.idempotence=false",
        ("session.timeout.ms (a consumer's property",),
    ),
    SettingsFile(
        "client-as-consumer.properties",
        "sasl.jaas.config=hunter2\nsession.timeout.ms=45000\nacks=all\nauto.offset.reset=latest\n",
        None,
        "session.timeout.ms=45000 auto.offset.reset=latest",
        ("acks (a producer's property: a consumer does not use it)",),
        field="consumer_config",
    ),
    SettingsFile(
        "serializers.properties",
        f"{_JAVA}acks=all\nspring.json.add.type.headers=false\n",
        ALL,
        "acks=all",
        ("spring.json.add.type.headers (a serializer's property: no part in delivery)",),
    ),
    SettingsFile(
        "min-isr.properties",
        f"{_JAVA}acks=all\nmin.insync.replicas=2\n",
        ALL,
        "acks=all",
        ("min.insync.replicas (a topic's property: a producer does not use it; --topic-config FILE takes it)",),
    ),
    SettingsFile(
        "min-isr-librdkafka.properties",
        "request.required.acks=all\nmin.insync.replicas=2\n",
        None,
        "",
        ("min.insync.replicas is no producer property of Kafka, but a topic's, and librdkafka does not start with it",),
        refused=True,
    ),
    SettingsFile(
        "config.json",
        '{"bootstrap.servers": "b:9092", "request.required.acks": 1, "message.timeout.ms": 9000}',
        NOTHING,
        "acks=1 delivery.timeout.ms=9000",
        (),
    ),
    SettingsFile(
        "camel.properties",
        f"{_JAVA}lingerMs=5\n",
        None,
        "",
        ("lingerMs is no producer property of Kafka; did you mean linger.ms?",),
        refused=True,
    ),
    SettingsFile(
        "misspelt-of-another.properties",
        f"{_JAVA}sesion.timeout.ms=5\n",
        None,
        "",
        ("did you mean session.timeout.ms, which is a consumer's?",),
        refused=True,
    ),
    SettingsFile(
        "prefixed.properties",
        "producer.acks=1\nproducer.retries=0\n",
        None,
        "",
        ("has names of Kafka Connect or Kafka Streams, e.g. producer.acks, which are not read",),
        refused=True,
    ),
    SettingsFile(
        "quarkus.properties",
        "quarkus.http.port=80\nmp.messaging.outgoing.orders.acks=all\n",
        None,
        "",
        ("has names of Quarkus", "which are not read"),
        refused=True,
    ),
    SettingsFile(
        "service.env",
        "SPRING_KAFKA_PRODUCER_ACKS=all\nLOG_LEVEL=hunter2\n",
        None,
        "",
        ("has names of environment variables of Spring Boot, e.g. SPRING_KAFKA_PRODUCER_ACKS, which are not read",),
        refused=True,
    ),
    SettingsFile(
        "reference.conf",
        "akka.kafka.producer {\n  kafka-clients {\n    acks = all\n  }\n}\n",
        None,
        "",
        ("has blocks of braces or tags, in a format that is not read; give .properties syntax",),
        refused=True,
    ),
    SettingsFile(
        "producer.py",
        "from kafka import KafkaProducer\np = KafkaProducer(acks='all')\n",
        None,
        "",
        ("has no property of Kafka, so its format is not known",),
        refused=True,
    ),
    SettingsFile(
        "alias.yml",
        "spring: &a\n  kafka: *a\n",
        None,
        "",
        ("is no valid YAML",),
        refused=True,
    ),
    SettingsFile(
        "mirror-maker.yaml",
        "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaMirrorMaker2\nspec: {}\n",
        None,
        "",
        ("a Kubernetes resource of the kind KafkaMirrorMaker2, which is not read",),
        refused=True,
    ),
    SettingsFile(
        "micronaut.yml",
        "micronaut: {application: {name: x}}\nkafka: {producers: {default: {acks: all}}}\n",
        None,
        "",
        ("is a file of Micronaut, which is not read",),
        refused=True,
    ),
    SettingsFile(
        "compose.yml",
        "services: {app: {environment: {KAFKA_ACKS: all}}}\n",
        None,
        "",
        ("is a Compose file, which is not read",),
        refused=True,
    ),
    SettingsFile(
        "own.yml",
        "kafka: {producer: {acks: all}}\n",
        None,
        "",
        ("sets a producer in a tree that is not read (kafka), so what it promises is not known",),
        refused=True,
    ),
    SettingsFile("broken.json", '{"acks": hunter2}', None, "", ("is no valid JSON at line 1",), refused=True),
    SettingsFile("broken.toml", "a = hunter2\n", None, "", ("is no valid TOML at line 1",), refused=True),
)

_VECTOR = '[sinks.out]\ntype = "kafka"\nbootstrap_servers = "b"\ntopic = "t"\n'
_LOGSTASH = "input { stdin {} }\noutput {\n  # to Kafka\n  kafka {\n    codec => json { }\n%s  }\n}\n"
SHIPPERS = (
    SettingsFile(
        "fluent-bit-last-line.conf",
        "[OUTPUT]\n    Name kafka\n    rdkafka.acks 1\n    RDKAFKA.Acks all\n    rdkafka.acks 0\n",
        NO_COPIES,
        "acks=0",
        (),
    ),
    SettingsFile(
        "fluent-bit-last-line-in-other-case.conf",
        "[OUTPUT]\n    Name kafka\n    rdkafka.acks all\n    RDKAFKA.Acks 0\n",
        NO_COPIES,
        "acks=0",
        (),
    ),
    SettingsFile(
        "fluent-bit-text.yaml",
        "pipeline:\n  outputs:\n    - name: kafka\n      rdkafka.acks: all\n      rdkafka.enable.idempotence: yes\n",
        None,
        "",
        ("librdkafka refuses", "enable.idempotence"),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-octal.yaml",
        "pipeline:\n  outputs:\n    - {name: kafka, rdkafka.message.send.max.retries: 010}\n",
        None,
        "",
        ("message.send.max.retries is '010', and librdkafka reads it as octal",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-underscore.yaml",
        "pipeline:\n  outputs:\n    - {name: kafka, rdkafka.message.timeout.ms: 1_000}\n",
        None,
        "",
        ("message.timeout.ms is '1_000', and librdkafka reads only the number at its beginning, 1,",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-camel.yaml",
        "pipeline:\n  outputs:\n    - {name: kafka, rdkafka.Acks: 0}\n",
        None,
        "",
        ("_acks is no producer property of Kafka",),
        refused=True,
    ),
    SettingsFile(
        "vector-transactions.toml",
        f'{_VECTOR}[sinks.out.librdkafka_options]\n"transactional.id" = "x"\n',
        None,
        "",
        ("has a transactional.id, but vector begins no transaction, so its producer cannot send",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-transactions.conf",
        "[OUTPUT]\n    Name kafka\n    rdkafka.transactional.id x\n",
        None,
        "",
        ("has a transactional.id, but Fluent Bit begins no transaction",),
        refused=True,
    ),
    SettingsFile(
        "vector-variable.yaml",
        "sinks:\n  k: {type: '${T}', librdkafka_options: {acks: '0'}}\n  j: {type: kafka}\n",
        None,
        "",
        ("has 2 Kafka outputs of vector",),
        refused=True,
    ),
    SettingsFile(
        "logstash-twice.conf",
        'output { kafka { acks => "0" acks => "all" } }\n',
        None,
        "",
        ("acks has no value",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-set.conf",
        "@SET ACKS=0\n[OUTPUT]\n    Name kafka\n    rdkafka.request.required.acks ${ACKS}\n",
        NO_COPIES,
        "acks=0",
        (),
    ),
    SettingsFile(
        "fluent-bit-env.yaml",
        "env: {ACKS: 0}\npipeline:\n  outputs:\n    - name: kafka\n      rdkafka.acks: ${ACKS}\n",
        NO_COPIES,
        "acks=0",
        (),
    ),
    SettingsFile(
        "fluent-bit-env-list.yaml",
        "env: [{name: ACKS, value: 0}, {name: X, uri: 'file:///x'}]\npipeline:\n  outputs:\n    - "
        "{name: kafka, rdkafka.acks: '${ACKS}'}\n",
        NO_COPIES,
        "acks=0",
        (),
    ),
    SettingsFile(
        "fluent-bit-includes.conf",
        "@INCLUDE inputs.conf\n[OUTPUT]\n    Name kafka\n    rdkafka.acks 1\n",
        NOTHING,
        "acks=1",
        ("the file includes others, which were not given: a Kafka output that stands there is not judged",),
    ),
    SettingsFile(
        "fluent-bit-variable-where-no-promise-depends.conf",
        "[OUTPUT]\n    Name kafka\n    rdkafka.acks 1\n    rdkafka.queue.buffering.max.ms ${LINGER}\n",
        NOTHING,
        "acks=1",
        ("queue.buffering.max.ms (the file does not have the value",),
    ),
    SettingsFile(
        "fluent-bit-environment.conf",
        "[OUTPUT]\n    Name kafka\n    rdkafka.acks ${ACKS}\n",
        None,
        "",
        ("acks is a placeholder",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-set-twice.conf",
        "@SET ACKS=all\n@SET ACKS=0\n[OUTPUT]\n    Name kafka\n    rdkafka.acks ${ACKS}\n",
        None,
        "",
        ("acks is a placeholder",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-set-and-included.conf",
        "@SET ACKS=all\n@INCLUDE more.conf\n[OUTPUT]\n    Name kafka\n    rdkafka.acks ${ACKS}\n",
        None,
        "",
        ("acks is a placeholder",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-uri.yaml",
        "env: [{name: ACKS, uri: 'file:///x'}]\npipeline:\n  outputs:\n    - {name: kafka, rdkafka.acks: '${ACKS}'}\n",
        None,
        "",
        ("acks is a placeholder",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-only-includes.conf",
        "@INCLUDE outputs.conf\n[SERVICE]\n    Flush 1\n",
        None,
        "",
        ("has no Kafka output of Fluent Bit, but includes other files, which were not given",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-only-includes.yaml",
        "service: {flush: 1}\nincludes: [outputs.yaml]\n",
        None,
        "",
        ("but includes other files",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-unknown-name.conf",
        "[OUTPUT]\n    Name kafka\n[OUTPUT]\n    Name ${OUT}\n    rdkafka.acks 0\n",
        None,
        "",
        ("has 2 Kafka outputs of Fluent Bit",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit-seconds.conf",
        "[OUTPUT]\n    Name kafka\n    rdkafka.message.timeout.ms 5s\n",
        None,
        "",
        ("message.timeout.ms is '5s', and librdkafka reads only the number at its beginning, 5",),
        refused=True,
    ),
    SettingsFile(
        "vector.toml",
        f'{_VECTOR}message_timeout_ms = 5000\n[sinks.out.librdkafka_options]\n"request.required.acks" = "1"\n',
        NOTHING,
        "acks=1 delivery.timeout.ms=5000 enable.idempotence=false",
        ("type, bootstrap_servers, topic (vector's own)",),
    ),
    SettingsFile(
        "vector.yaml",
        "sinks:\n  k:\n    type: kafka\n    message_timeout_ms: 5000\n    librdkafka_options:\n"
        '      message.timeout.ms: "70000"\n      enable.idempotence: "true"\n',
        ALL,
        "delivery.timeout.ms=70000 enable.idempotence=true max.in.flight.requests.per.connection=5",
        (),
    ),
    SettingsFile(
        "vector-in-the-wrong-place.toml",
        f"{_VECTOR}acks = 0\nbatch.timeout_secs = 0.2\n",
        KEPT,
        "acks=all linger.ms=200",
        ("left out: acks (vector does not read these names here, so they have no effect; below librdkafka_options",),
    ),
    SettingsFile(
        "vector-nested.toml",
        f"{_VECTOR}librdkafka_options.request.required.acks = '0'\n",
        None,
        "",
        ("request.required.acks in librdkafka_options is no text", "in quotes, too"),
        refused=True,
    ),
    SettingsFile(
        "vector-number.toml",
        f'{_VECTOR}librdkafka_options."request.required.acks" = 0\n',
        None,
        "",
        ("request.required.acks in librdkafka_options is no text, and vector does not start with it",),
        refused=True,
    ),
    SettingsFile(
        "vector-second-name.toml",
        f'{_VECTOR}librdkafka_options."delivery.timeout.ms" = "1"\n',
        None,
        "",
        ("delivery.timeout.ms in librdkafka_options is another name of message.timeout.ms, which vector sets itself",),
        refused=True,
    ),
    SettingsFile(
        "vector-second-name-where-no-promise-depends.toml",
        f'{_VECTOR}librdkafka_options."compression.type" = "zstd"\n'
        'librdkafka_options."delivery.timeout.ms" = "300000"\n',
        KEPT,
        "delivery.timeout.ms=300000",
        ("left out: compression.type (vector sets it itself under another name",),
    ),
    SettingsFile(
        "vector-batch-twice.toml",
        f'{_VECTOR}batch.timeout_secs = 1\nlibrdkafka_options."queue.buffering.max.ms" = "5"\n',
        None,
        "",
        ("sets queue.buffering.max.ms twice, by batch.timeout_secs and in librdkafka_options",),
        refused=True,
    ),
    SettingsFile(
        "vector-two-sinks.toml",
        f"{_VECTOR}\n{_VECTOR.replace('out', 'more')}",
        None,
        "",
        ("has 2 Kafka outputs of vector: out, more; allowed: 1",),
        refused=True,
    ),
    SettingsFile(
        "fluent-bit.conf",
        "[SERVICE]\n    Flush 1\n[OUTPUT]\n    Name stdout\n[OUTPUT]\n    Name        kafka\n    Brokers     b:9092\n"
        "    rdkafka.request.required.acks 0\n    rdkafka.sasl.password hunter2\n",
        NO_COPIES,
        "acks=0",
        ("name, brokers (Fluent Bit's own)",),
    ),
    SettingsFile(
        "fluent-bit-without-prefix.conf",
        "[OUTPUT]\n    name kafka\n    acks 0\n    rdkafka.enable.idempotence true\n",
        ALL,
        "acks=all enable.idempotence=true",
        ("acks (Fluent Bit does not read these names here, so they have no effect; with rdkafka. before them",),
    ),
    SettingsFile(
        "fluent-bit.yaml",
        "pipeline:\n  outputs:\n    - name: kafka\n      match: '*'\n      rdkafka.message.timeout.ms: 4000\n",
        KEPT,
        "delivery.timeout.ms=4000",
        (),
    ),
    SettingsFile(
        "fluent-bit-none.conf",
        "[OUTPUT]\n    Name stdout\n",
        None,
        "",
        ("has 0 Kafka outputs of Fluent Bit; allowed: 1",),
        refused=True,
    ),
    SettingsFile(
        "logstash.conf",
        _LOGSTASH % '    bootstrap_servers => "b:9092"\n    topic_id => "t"\n    linger_ms => 9\n',
        NOTHING,
        "acks=1 linger.ms=9 request.timeout.ms=40000 enable.idempotence=false",
        ("Logstash gives its producers, where the file says nothing: acks=1", "sends a batch again that failed"),
    ),
    SettingsFile(
        "logstash-all.conf",
        _LOGSTASH % "    acks => 'all'\n    retries => 3\n    sasl_jaas_config => 'hunter2'\n",
        KEPT,
        "acks=all retries=3 enable.idempotence=false",
        ("enable.idempotence=false: Logstash has no option for it",),
    ),
    SettingsFile(
        "logstash-unknown.conf",
        _LOGSTASH % "    enable_idempotence => true\n    max_in_flight_requests_per_connection => 1\n",
        NOTHING,
        "acks=1 max.in.flight.requests.per.connection=5",
        ("enable_idempotence, max_in_flight_requests_per_connection (Logstash does not read these names here",),
    ),
    SettingsFile(
        "filebeat.yml",
        'output.kafka:\n  hosts: ["b"]\n  required_acks: -1\n',
        None,
        "",
        ("a file of Filebeat or another Beat, whose client is sarama", "nothing is promised"),
        refused=True,
    ),
    SettingsFile(
        "heartbeat.yml",
        "output.kafka.hosts: [b]\noutput.kafka.required_acks: -1\n",
        None,
        "",
        ("whose client is sarama",),
        refused=True,
    ),
    SettingsFile(
        "metricbeat.yml",
        "output:\n  kafka:\n    required_acks: 1\n",
        None,
        "",
        ("whose client is sarama",),
        refused=True,
    ),
    SettingsFile(
        "telegraf.conf",
        '[agent]\n[[outputs.kafka]]\n  brokers = ["b"]\n  required_acks = -1\n',
        None,
        "",
        ("a file of Telegraf, whose client is sarama",),
        refused=True,
    ),
    SettingsFile(
        "collector.yaml",
        "exporters: {kafka: {producer: {required_acks: -1}}}\n",
        None,
        "",
        ("a file of the OpenTelemetry Collector, which is not read",),
        refused=True,
    ),
)

_TOPIC = "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaTopic\nspec:\n"
_POOL = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaNodePool\nspec: {replicas: 3, roles: [broker]}\n"
_CLUSTER = (
    "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nspec: {kafka: {config: {min.insync.replicas: 2, "
    "default.replication.factor: 3}}}\n"
)
_NAMED_CLUSTER = _CLUSTER.replace("spec:", "metadata: {name: east}\nspec:")
TOPICS = (
    SettingsFile(
        "unmanaged.yaml",
        _TOPIC.replace("spec:", 'metadata: {annotations: {strimzi.io/managed: "false"}}\nspec:')
        + "  config: {min.insync.replicas: 2}\n",
        None,
        "",
        ("a KafkaTopic has the annotation strimzi.io/managed: false, so Strimzi does not apply it",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "paused.yaml",
        _CLUSTER.replace("spec:", "metadata: {annotations: {strimzi.io/pause-reconciliation: true}}\nspec:"),
        None,
        "",
        ("a Kafka has the annotation strimzi.io/pause-reconciliation: true",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "of-another-cluster.yaml",
        _NAMED_CLUSTER
        + "---\n"
        + _TOPIC.replace("spec:", "metadata: {labels: {strimzi.io/cluster: west}}\nspec:")
        + "  config: {flush.messages: 1}\n",
        None,
        "",
        ("the KafkaTopic belongs to another Kafka (label strimzi.io/cluster) than the one beside it",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "of-this-cluster.yaml",
        _NAMED_CLUSTER
        + "---\n"
        + _TOPIC.replace("spec:", "metadata: {labels: {strimzi.io/cluster: east}}\nspec:")
        + "  config: {flush.messages: 1}\n",
        None,
        "min.insync.replicas=2 flush.messages=1",
        (),
        field="topic_config",
    ),
    SettingsFile(
        "kubectl.yaml",
        "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- apiVersion: kafka.strimzi.io/v1beta2\n"
        "  kind: KafkaTopic\n  spec: {config: {min.insync.replicas: 2}}\n",
        None,
        "min.insync.replicas=2",
        (),
        field="topic_config",
    ),
    SettingsFile(
        "kubectl-of-two.json",
        '{"apiVersion": "v1", "kind": "List", "items": ['
        + ", ".join(['{"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaTopic", "spec": {}}'] * 2)
        + "]}",
        None,
        "",
        ("has several resources of the kind KafkaTopic; allowed: 1",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "node-pools.yaml",
        _POOL + "---\n" + _CLUSTER + "---\n" + _POOL,
        None,
        "min.insync.replicas=2",
        (
            "KafkaNodePool (resources without settings of a topic)",
            "default.replication.factor (a run takes it as an option: --replication-factor 3)",
        ),
        field="topic_config",
    ),
    SettingsFile(
        "cluster-and-topic.yaml",
        _CLUSTER + "---\n" + f"{_TOPIC}  config: {{flush.messages: 1}}\n",
        None,
        "min.insync.replicas=2 flush.messages=1",
        (),
        field="topic_config",
    ),
    SettingsFile(
        "two-clusters.yaml",
        _CLUSTER + "---\n" + _CLUSTER,
        None,
        "",
        ("has several resources of the kind Kafka",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "node-pool-alone.yaml",
        _POOL,
        None,
        "",
        ("of the kind KafkaNodePool, which is not read",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "another-operator.yaml",
        "apiVersion: platform.confluent.io/v1beta1\nkind: Kafka\nspec: {configOverrides: {server: "
        "[unclean.leader.election.enable=true]}}\n",
        None,
        "",
        ("of another operator than Strimzi",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "cluster-as-producer.yaml",
        _CLUSTER,
        None,
        "",
        ("has no producer settings; name it by --topic-config",),
        refused=True,
    ),
    SettingsFile(
        "with-a-deployment.yaml",
        _CLUSTER + "---\napiVersion: apps/v1\nkind: Deployment\n",
        None,
        "",
        ("of the kind Deployment, which is not read",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "topic.yaml",
        f"{_TOPIC}  partitions: 12\n  replicas: 3\n  config:\n    min.insync.replicas: 2\n    retention.ms: 9\n",
        None,
        "min.insync.replicas=2 !retention.ms",
        ("partitions (a run takes it as an option: --partitions 12)", "as an option: --replication-factor 3"),
        field="topic_config",
    ),
    SettingsFile(
        "topic-unclean.yml",
        f"{_TOPIC}  config: {{unclean.leader.election.enable: true}}\n",
        None,
        "unclean.leader.election.enable=true min.insync.replicas=1",
        (),
        field="topic_config",
    ),
    SettingsFile(
        "topic-as-producer.yml", f"{_TOPIC}  replicas: 3\n", None, "", ("name it by --topic-config",), refused=True
    ),
    SettingsFile(
        "deployment.yml",
        "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3}\n",
        None,
        "",
        ("a Kubernetes resource of the kind Deployment, which is not read",),
        refused=True,
    ),
    SettingsFile(
        "cluster.yaml",
        "apiVersion: kafka.strimzi.io/v1beta2\nkind: Kafka\nspec: {kafka: {config: {min.insync.replicas: 2}}}\n",
        None,
        "min.insync.replicas=2",
        (),
        field="topic_config",
    ),
    SettingsFile(
        "server.properties",
        "process.roles=broker\nnum.partitions=6\ndefault.replication.factor=3\nmin.insync.replicas=2\n"
        "log.flush.interval.messages=10\nlog.roll.hours=2\nlog.retention.hours=1\nlog.dirs=/hunter2\n",
        None,
        "min.insync.replicas=2 flush.messages=10 segment.ms=7200000 !retention.ms",
        ("default.replication.factor (a run takes it as an option: --replication-factor 3)", "--partitions 6"),
        field="topic_config",
    ),
    SettingsFile(
        "broker-defaults.properties", "broker.id=1\n", None, "min.insync.replicas=1", (), field="topic_config"
    ),
    SettingsFile(
        "zookeeper.properties",
        "zookeeper.connect=z\nunclean.leader.election.enable=true\n",
        None,
        "unclean.leader.election.enable=true",
        ("the defaults of these brokers",),
        field="topic_config",
    ),
    SettingsFile(
        "broker-as-producer.properties",
        "broker.id=1\nacks=all\n",
        None,
        "",
        ("is a broker's configuration, which has no producer settings",),
        refused=True,
    ),
    SettingsFile(
        "configs.txt",
        "Dynamic configs for topic orders are:\n  min.insync.replicas=2 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
        "min.insync.replicas=2, STATIC_BROKER_CONFIG:min.insync.replicas=1}\n",
        None,
        "min.insync.replicas=2 flush.messages=9223372036854775807",
        ("what the brokers' configuration sets for all topics would count before Kafka's own defaults",),
        field="topic_config",
    ),
    SettingsFile(
        "all-configs.txt",
        "All configs for topic orders are:\n  cleanup.policy=delete sensitive=false synonyms={}\n"
        "  flush.messages=1 sensitive=false synonyms={}\n  retention.ms=1 sensitive=false synonyms={}\n",
        None,
        "flush.messages=1 !cleanup.policy",
        (),
        field="topic_config",
    ),
    SettingsFile(
        "topics.txt",
        "Topic: orders\tTopicId: x\tPartitionCount: 4\tReplicationFactor: 2\tConfigs: min.insync.replicas=2,flush.ms=1"
        "\n"
        "\tTopic: orders\tPartition: 0\tLeader: 1\n",
        None,
        "min.insync.replicas=2 flush.ms=1",
        ("--partitions 4", "--replication-factor 2"),
        field="topic_config",
    ),
    SettingsFile(
        "chart.properties",
        "segment.ms={{ .Values.segment }}\nreplication.factor=${RF}\nmin.insync.replicas=2\n",
        None,
        "min.insync.replicas=2 !segment.ms",
        ("segment.ms, replication.factor (the file does not have the value",),
        field="topic_config",
    ),
    SettingsFile(
        "chart-where-it-matters.properties",
        "min.insync.replicas={{ .Values.isr }}\n",
        None,
        "",
        ("min.insync.replicas is a placeholder",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "two-topics.txt",
        "Dynamic configs for topic a are:\nDynamic configs for topic b are:\n",
        None,
        "",
        ("describes 2 topics; allowed: 1",),
        field="topic_config",
        refused=True,
    ),
    SettingsFile(
        "throttled.txt",
        "Topic: orders\tTopicId: x\tPartitionCount: 4\tReplicationFactor: 3\tConfigs: "
        "leader.replication.throttled.replicas=0:1,0:2,min.insync.replicas=2,flush.ms=1\n",
        None,
        "min.insync.replicas=2 flush.ms=1",
        ("leader.replication.throttled.replicas (it names brokers of another cluster)",),
        field="topic_config",
    ),
    SettingsFile(
        "one-replica.txt",
        "Topic: orders\tTopicId: x\tPartitionCount: 4\tReplicationFactor: 1\tConfigs: \n",
        None,
        "min.insync.replicas=1",
        ("cannot be shown with one replica: that a record survives the loss of its broker",),
        field="topic_config",
    ),
    SettingsFile(
        "replicas.properties",
        "replication.factor=3\npartitions=7\nmin.insync.replicas=2\n",
        None,
        "min.insync.replicas=2",
        ("as an option: --replication-factor 3", "as an option: --partitions 7"),
        field="topic_config",
    ),
    SettingsFile(
        "brokers-name.properties",
        "log.retention.hours=2\n",
        None,
        "",
        ("log.retention.hours is no topic property of Kafka, but a broker's: a topic has retention.ms",),
        field="topic_config",
        refused=True,
    ),
)

_STREAMS = "application.id=orders\n"
STREAMS = (
    SettingsFile(
        "streams-defaults.properties",
        _STREAMS,
        ALL,
        "acks=all linger.ms=100 delivery.timeout.ms=120000 !transactional.id",
        (
            "Kafka Streams gives its producers, where the file says nothing: linger.ms=100",
            "processing.guarantee=at_least_once: after a failure Kafka Streams processes records again",
        ),
    ),
    SettingsFile(
        "streams-prefix.properties",
        f"{_STREAMS}acks=all\nproducer.acks=0\nproducer.linger.ms=3\nnum.stream.threads=4\n"
        f"consumer.isolation.level=x\n",
        NO_COPIES,
        "acks=0 linger.ms=3",
        ("left out: application.id, num.stream.threads, consumer.isolation.level (Kafka Streams' own",),
    ),
    SettingsFile(
        "streams-without-prefix.properties",
        f"{_STREAMS}acks=1\n",
        NOTHING,
        "acks=1 enable.idempotence=false",
        (),
    ),
    SettingsFile(
        "streams-exactly-once.properties",
        f"{_STREAMS}processing.guarantee=exactly_once_v2\nproducer.enable.idempotence=false\ntransactional.id=mine\n",
        ALL,
        "enable.idempotence=true transactional.id=streams transaction.timeout.ms=10000",
        (
            "left out: producer.enable.idempotence, transactional.id (Kafka Streams sets it itself under "
            "processing.guarantee=exactly_once_v2",
            "Kafka Streams sets enable.idempotence=true, and gives each producer a transactional.id",
        ),
    ),
    SettingsFile(
        "streams.json",
        '{"application.id": "a", "bootstrap.servers": "b:9092", "acks": "all", "producer.acks": "0"}',
        NO_COPIES,
        "acks=0",
        (),
    ),
    SettingsFile(
        "streams-acks.properties",
        f"{_STREAMS}processing.guarantee=exactly_once_v2\nacks=1\n",
        None,
        "",
        ("does not start: enable.idempotence=true needs acks=all, and acks is 1",),
        refused=True,
    ),
    SettingsFile(
        "streams-in-flight.properties",
        f"{_STREAMS}processing.guarantee=exactly_once_v2\nproducer.max.in.flight.requests.per.connection=6\n",
        None,
        "",
        ("does not start", "max.in.flight.requests.per.connection is 6"),
        refused=True,
    ),
    SettingsFile(
        "streams-before-4.properties",
        f"{_STREAMS}processing.guarantee=exactly_once\n",
        None,
        "",
        ("processing.guarantee has a value with which Kafka Streams 4 does not start", "write exactly_once_v2"),
        refused=True,
    ),
    SettingsFile(
        "streams-upper.properties",
        "processing.guarantee=EXACTLY_ONCE_V2\n",
        None,
        "",
        ("does not start; allowed: at_least_once, exactly_once_v2",),
        refused=True,
    ),
    SettingsFile(
        "streams-own-transactions.properties",
        f"{_STREAMS}producer.transactional.id=x\n",
        None,
        "",
        ("begins no transaction",),
        refused=True,
    ),
    SettingsFile(
        "streams-consumer.properties",
        f"{_STREAMS}consumer.auto.offset.reset=earliest\n",
        None,
        "",
        ("of which only the producers are read",),
        field="consumer_config",
        refused=True,
    ),
)
FILES = (*SPRING, *CONNECT, *STREAMS, *MIRROR_MAKER, *CLIENTS, *SHIPPERS, *TOPICS)

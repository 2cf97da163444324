"""A cluster that the verifier has not started: SASL_SSL with SCRAM and PLAIN, mutual TLS, and ACLs.

It is real Apache Kafka, from the jars that embedded clusters use, with a server.properties of its own. The ids of its
brokers are not 1 to n. Nothing here goes through a backend.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from delivery_verifier.host.java.class_archive import ClassArchive
from delivery_verifier.host.java.jars import cache_dir, fetch, kafka_jars
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.host.ports import free_ports
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.planning import cluster_needs
from delivery_verifier.planning.build import scenario_from_params
from support.certificates import DAY, HERE, Authority
from support.patience import PATIENCE_S

CLUSTER_ID = "OwnClusterOfTests-0001"
VERSION = "4.3.1"
CONTROLLER, BROKERS = 100, (11, 12, 13)
USERS = {"operator": "operator-secret-1", "verifier": "verifier-secret-2"}
LISTENERS = ("SASL", "MTLS", "REPL", "EXPIRED", "MISNAMED")
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}
PATTERNS = {"prefixed": ResourcePatternType.PREFIXED, "literal": ResourcePatternType.LITERAL}
_BOOT_S = 6 * PATIENCE_S
_LOG4J = """status=error
rootLogger.level=WARN
rootLogger.appenderRefs=c
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=[%d] %p %m (%c)%n
"""


class SecuredCluster:
    """A running cluster of `brokers`, with the Kafka version `version`. `folder` holds its data, its logs, and in
    `certificates` what clients need. `users` maps users to passwords. `settings` are more settings of all nodes.
    `doors`: the port of each broker to which its listener SASL sends clients, if that is not its own."""

    def __init__(
        self,
        folder: Path,
        brokers: Sequence[int] = BROKERS,
        version: str = VERSION,
        users: Mapping[str, str] = USERS,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.settings = settings or {}
        self.folder, self.certificates, self.users = folder, folder / "certificates", users
        self.brokers, self.version = tuple(brokers), version
        numbers = iter(free_ports(1 + len(LISTENERS) * len(self.brokers)))
        self._controller_port = next(numbers)
        self.ports = {broker: {name: next(numbers) for name in LISTENERS} for broker in self.brokers}
        self.doors: dict[int, int] = {}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def servers(self, listener: str = "SASL") -> str:
        """The addresses of all brokers at one of their listeners."""
        return ",".join(f"127.0.0.1:{self.ports[broker][listener]}" for broker in self.brokers)

    def properties(self, user: str = "verifier", **more: str | None) -> dict[str, str]:
        """What librdkafka needs to connect as `user` by SCRAM. `more` replaces or, if None, removes properties; their
        names have underscores for dots."""
        made: dict[str, str | None] = {
            "bootstrap.servers": self.servers(),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self.users[user],
            "ssl.ca.location": str(self.certificates / "ca.pem"),
        }
        made |= {name.replace("_", "."): value for name, value in more.items()}
        return {name: value for name, value in made.items() if value is not None}

    def access(
        self, folder: Path, properties: Mapping[str, str] | None = None, commands: str | None = None
    ) -> ClusterAccess:
        """Writes `properties`, or those of the verifier, into a file in `folder`. Returns the options that name it."""
        config = folder / "client.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in (properties or self.properties()).items()))
        config.chmod(0o600)
        return ClusterAccess(command_config=str(config), commands=commands)

    @cached_property
    def operator(self) -> AdminClient:
        """A client of the operator, who may do everything."""
        return AdminClient({**self.properties("operator"), "log_level": 0})

    def grant(self, rights: Sequence[tuple[str, str, str, str]], user: str = "verifier") -> None:
        """Replaces the rights of `user`. A right is a kind of resource, its name, its pattern, and an operation."""
        client, anything = self.operator, ResourcePatternType.ANY
        of_user = AclBindingFilter(
            ResourceType.ANY, None, anything, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY
        )
        for deleted in client.delete_acls([of_user]).values():
            deleted.result(PATIENCE_S)
        bindings = [
            AclBinding(
                KINDS[kind],
                name,
                PATTERNS[pattern],
                f"User:{user}",
                "*",
                _operation(operation),
                AclPermissionType.ALLOW,
            )
            for kind, name, pattern, operation in rights
        ]
        for created in (client.create_acls(bindings) if bindings else {}).values():
            created.result(PATIENCE_S)

    def grant_exactly(self, params: Mapping[str, Any], user: str = "verifier", *, wishes: bool = False) -> None:
        """Gives `user` the rights that are documented for a run with these fields, and no others. `wishes`: also those
        without which the run only knows less."""
        needs = cluster_needs.needs(scenario_from_params(params, "planned"))
        needed = needs.rights + (needs.wishes if wishes else ())
        self.grant(
            [
                (
                    right.kind,
                    right.name or "kafka-cluster",
                    "prefixed" if right.is_prefix else "literal",
                    right.operation,
                )
                for right in needed
            ],
            user,
        )

    def start(self) -> None:
        """Formats and starts all nodes, and waits until every broker knows every other. Raises DeadlinePassed."""
        self._write_files()
        scram = [
            word
            for user, password in self.users.items()
            for word in ("--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]")
        ]
        formats = [
            subprocess.Popen(
                self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", self._conf(node), *scram),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for node in (CONTROLLER, *self.brokers)
        ]
        for process in formats:
            output = process.communicate()[0].decode()
            assert process.returncode == 0, output
        for node in (CONTROLLER, *self.brokers):
            self.launch(node)
        wait_until(self.is_up, "the secured cluster to be up", _BOOT_S, 0.5, detail=self._last_lines)

    def tool(self, *arguments: str) -> list[str]:
        """The command line of one of Kafka's own tools: its main class, and its arguments."""
        jars = os.pathsep.join(str(jar) for jar in fetch(f"kafka-tools-{VERSION}"))
        return [f"{java_home()}/bin/java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", jars, *arguments]

    def command(self, node: int) -> list[str]:
        """The command line that starts a node."""
        return self._java("kafka.Kafka", self._conf(node))

    def launch(self, node: int) -> None:
        """Starts a node."""
        with (self.folder / f"{node}.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                self.command(node), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def move(self, broker: int) -> None:
        """Gives a broker that does not run other ports for its next start."""
        self.ports[broker] = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        self._write_conf(broker)

    def stop(self) -> None:
        """Kills all nodes."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def is_up(self) -> bool:
        """Whether every broker is known to one of them."""
        client = self.operator
        client.poll(0)
        try:
            return set(client.list_topics(timeout=3).brokers) == set(self.brokers)
        except Exception:  # the brokers are booting
            return False

    def _last_lines(self) -> str:
        return "\n".join((self.folder / f"{node}.log").read_text()[-500:] for node in (CONTROLLER, *self.brokers))

    def _conf(self, node: int) -> str:
        return str(self.folder / f"{node}.properties")

    def _java(self, *arguments: str) -> list[str]:
        classes = ClassArchive.named(cache_dir() / "archives", f"kafka-{self.version}")
        sharing = [word for word in classes.options() if "ArchiveClassesAtExit" not in word]
        return [
            f"{java_home()}/bin/java",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-XX:TieredStopAtLevel=1",
            *(sharing if classes.file.exists() else []),
            f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties",
            "-Xmx256m",
            "-cp",
            os.pathsep.join(str(jar) for jar in kafka_jars(self.version)),
            *arguments,
        ]

    def _write_files(self) -> None:
        authority = Authority(self.certificates)
        authority.sign("broker", *HERE)
        authority.sign("expired", *HERE, begins=-10 * DAY, ends=-DAY)
        authority.sign("misnamed", *(type(HERE[0])("elsewhere.example"),))
        authority.sign("verifier")
        authority.sign("late", begins=-10 * DAY, ends=-DAY)
        Authority(self.folder / "other", "another authority")
        Authority(self.folder / "renewed")  # the same name, another key
        (self.folder / "log4j2.properties").write_text(_LOG4J)
        for node in (CONTROLLER, *self.brokers):
            self._write_conf(node)

    def _write_conf(self, node: int) -> None:
        text = "".join(f"{name}={value}\n" for name, value in self._settings(node).items())
        Path(self._conf(node)).write_text(text)

    def _settings(self, node: int) -> dict[str, object]:
        settings: dict[str, object] = {
            "node.id": node,
            "log.dirs": f"{self.folder}/data-{node}",
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,REPL:PLAINTEXT,SASL:SASL_SSL,MTLS:SSL,"
            "EXPIRED:SSL,MISNAMED:SSL",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:operator;User:ANONYMOUS",  # the principal of the listeners REPL and CONTROLLER
            "allow.everyone.if.no.acl.found": "false",
        }
        if node == CONTROLLER:
            listener = f"CONTROLLER://127.0.0.1:{self._controller_port}"
            return settings | {"process.roles": "controller", "listeners": listener, **self.settings}
        listeners = _listeners(self.ports[node])
        plain = " ".join(f'user_{user}="{password}"' for user, password in self.users.items())
        module = "org.apache.kafka.common.security"
        return settings | {
            "process.roles": "broker",
            "broker.rack": f"rack-{node % 2}",
            "listeners": listeners,
            "advertised.listeners": _listeners(
                {**self.ports[node], "SASL": self.doors.get(node, self.ports[node]["SASL"])}
            ),
            "inter.broker.listener.name": "REPL",
            "listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
            "listener.name.sasl.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required {plain};",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": f"{self.certificates}/broker.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{self.certificates}/ca.pem",
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.expired.ssl.keystore.location": f"{self.certificates}/expired.pem",
            "listener.name.misnamed.ssl.keystore.location": f"{self.certificates}/misnamed.pem",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": len(self.brokers),
            "transaction.state.log.num.partitions": 3,
            "transaction.state.log.replication.factor": len(self.brokers),
            "transaction.state.log.min.isr": min(2, len(self.brokers)),
            "group.initial.rebalance.delay.ms": 0,
            "num.io.threads": 4,
            "num.network.threads": 2,
            "log.cleaner.dedupe.buffer.size": 4194304,
            "auto.create.topics.enable": "false",
            **self.settings,
        }


def _listeners(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def _operation(name: str) -> AclOperation:
    """Returns the operation that Kafka calls e.g. `DescribeConfigs`."""
    words = "".join(f"_{sign}" if sign.isupper() else sign for sign in name).strip("_")
    return AclOperation[words.upper()]


@contextmanager
def secured_cluster(
    folder: Path,
    brokers: Sequence[int] = BROKERS,
    version: str = VERSION,
    users: Mapping[str, str] = USERS,
    settings: Mapping[str, object] | None = None,
) -> Iterator[SecuredCluster]:
    """Yields a running cluster in `folder`. Its processes are killed after the block."""
    cluster = SecuredCluster(folder, brokers, version, users, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()

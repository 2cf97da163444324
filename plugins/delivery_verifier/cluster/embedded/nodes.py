"""The nodes of an embedded cluster: one KRaft controller and up to three brokers. They are real Apache Kafka and listen
on loopback ports.

The module writes the nodes' configurations and data folders, and builds the command lines that start the nodes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from delivery_verifier.cluster.broker_settings import controller_settings, settings_of
from delivery_verifier.cluster.embedded.disks import Disk
from delivery_verifier.cluster.layout import CONTROLLER, HOST, ClusterLayout
from delivery_verifier.host.java.class_archive import ClassArchive
from delivery_verifier.host.java.jars import cache_dir, kafka_jars
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.host.ports import free_ports
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import ClusterSpec

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The cluster id with which every data folder is formatted."""
HEAP = "256m"
"""The heap size of every node's JVM."""
NO_ELR = ("--feature", "eligible.leader.replicas.version=0")
"""Options of Kafka's storage tool that switch eligible leader replicas off."""

_LOG4J = """status=error
rootLogger.level=INFO
rootLogger.appenderRefs=c
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=[%d] %p %m (%c)%n
"""

_SIZES = {
    "num.io.threads": "4",
    "num.network.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
"""Settings with which every broker runs on a small host. `ClusterSpec.broker_settings` may replace them."""


def lay_out(workspace: Path, spec: ClusterSpec) -> ClusterLayout:
    """Prepares a cluster in `workspace`: chooses free loopback ports, writes configurations, and formats data folders.
    Returns the layout.

    If the cluster has the capability `power`, each broker's data folder is a file system of its own. Raises StepFailed
    if a data folder cannot be formatted, and DiskError if a file system cannot be made.
    """
    ids = list(range(1, spec.brokers + 1))
    controller, *ports = free_ports(1 + 4 * len(ids))
    client, replication, proxied, proxy = (dict(zip(ids, ports[kind::4], strict=True)) for kind in range(4))
    layout = ClusterLayout(
        workspace=str(workspace),
        spec=spec,
        controller_port=controller,
        client_ports=client,
        replication_ports=replication,
        proxied_ports=proxied if "proxy" in spec.capabilities else {},
        proxy_ports=proxy if "proxy" in spec.capabilities else {},
    )
    for folder in ("conf", "data", "logs"):
        (workspace / folder).mkdir(parents=True)
    (workspace / "conf/log4j2.properties").write_text(_LOG4J)
    for node in (CONTROLLER, *ids):
        (workspace / f"conf/{node}.properties").write_text(_properties(layout, node))
    template = _template(layout)
    for disk in _disks(layout):
        disk.make()
    for node in (CONTROLLER, *ids):
        shutil.copytree(template / str(node), workspace / "data" / str(node), dirs_exist_ok=True)
    for disk in _disks(layout):
        disk.sync()
    return layout


def _disks(layout: ClusterLayout) -> list[Disk]:
    """Returns the brokers' disks. The result is empty if the cluster lacks the capability `power`.

    The controller has no disk of its own, because no fault cuts the power of the controller.
    """
    has_own = "power" in layout.spec.capabilities
    return [Disk.of_broker(Path(layout.workspace), broker) for broker in layout.brokers] if has_own else []


def command(layout: ClusterLayout, node: int) -> list[str]:
    """Returns the command line that starts the node `node`.

    The node's JVM uses the class data archive (see `archive`). If there is no archive yet, and archives are to be
    written (`class_archive.are_written`), the JVM of the broker with the highest id writes the archive when it exits.
    """
    classes = archive(layout)
    sharing = classes.options() if classes.file.exists() or node == max(layout.brokers) else []
    return _java(layout, *sharing, "kafka.Kafka", f"{layout.workspace}/conf/{node}.properties")


def archive(layout: ClusterLayout) -> ClassArchive:
    """Returns the class data archive of the nodes: a file of loaded classes, with which JVMs boot faster.

    The file need not exist yet.
    """
    return ClassArchive.named(cache_dir() / "archives", f"kafka-{layout.spec.kafka_version}")


def _java(layout: ClusterLayout, *arguments: str) -> list[str]:
    """Returns a command line that starts Java. `arguments` are JVM options, the main class and its first argument, in
    this order.

    The JVM uses only the C1 compiler and the serial collector, because measurements showed that brokers then boot
    fastest.
    """
    classpath = ":".join(str(jar) for jar in kafka_jars(layout.spec.kafka_version))
    options, main = arguments[:-2], arguments[-2:]
    return [
        f"{java_home()}/bin/java",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        "-XX:TieredStopAtLevel=1",
        *options,
        f"-Dlog4j2.configurationFile={layout.workspace}/conf/log4j2.properties",
        f"-Xms{HEAP}",
        f"-Xmx{HEAP}",
        "-cp",
        classpath,
        *main,
    ]


def _properties(layout: ClusterLayout, node: int) -> str:
    spec = layout.spec
    settings = {
        "node.id": node,
        "log.dirs": f"{layout.workspace}/data/{node}",
        "controller.quorum.voters": f"{CONTROLLER}@{HOST}:{layout.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT,REPL:PLAINTEXT,PROXIED:PLAINTEXT",
        **controller_settings(spec),
    }
    if node == CONTROLLER:
        settings |= {"process.roles": "controller", "listeners": f"CONTROLLER://{HOST}:{layout.controller_port}"}
    else:
        ports = layout.listeners(node).items()
        settings |= {
            "process.roles": "broker",
            "listeners": ",".join(f"{name}://{HOST}:{bound}" for name, (bound, _) in ports),
            "advertised.listeners": ",".join(f"{name}://{HOST}:{advertised}" for name, (_, advertised) in ports),
            "inter.broker.listener.name": "REPL",
            **_SIZES,
            **settings_of(spec),
        }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _template(layout: ClusterLayout) -> Path:
    """Returns the template: a folder with a formatted data folder for each node. Every cluster gets a copy of the
    template.

    There is one template for each combination of Kafka version, number of brokers, and eligible leader replicas (ELR,
    KIP-966) on or off. If the template does not exist, the function makes it. Templates save time, because formatting
    takes one JVM start per node. Raises StepFailed if Kafka's storage tool fails.
    """
    spec = layout.spec
    without = "" if spec.elr else "-without-elr"
    template = cache_dir() / "templates" / f"kafka-{spec.kafka_version}-{spec.brokers}{without}"
    if template.exists():
        return template
    nodes = [CONTROLLER, *layout.brokers]
    running = [
        subprocess.Popen(
            [
                *_java(layout, "kafka.tools.StorageTool", "format"),
                "-t",
                CLUSTER_ID,
                "-c",
                f"{layout.workspace}/conf/{node}.properties",
                *([] if spec.elr else NO_ELR),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for node in nodes
    ]
    for process in running:
        output = process.communicate(timeout=120)[0]
        if process.returncode:
            raise StepFailed(f"formatting the storage failed: {output.decode(errors='replace')[-1500:]}")
    partial = template.with_name(f"{template.name}.{os.getpid()}")
    shutil.copytree(Path(layout.workspace) / "data", partial)
    try:
        partial.rename(template)
    except OSError:  # another run has just written the same template
        shutil.rmtree(partial)
    for node in nodes:
        shutil.rmtree(Path(layout.workspace) / "data" / str(node))
    return template

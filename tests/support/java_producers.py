"""Producers of the Java client in many releases, in one JVM: what each makes of settings. No broker is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from delivery_verifier.host.java import jars
from delivery_verifier.host.java.runtime import java_home

_SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
_OF_CLIENT = {"bootstrap.servers": "127.0.0.1:9", "key.serializer": _SERIALIZER, "value.serializer": _SERIALIZER}


@dataclass(frozen=True)
class Effective:
    """What a producer has in force, by Kafka's names. `refused`: the client's reason not to start; then the rest is
    empty."""

    settings: Mapping[str, Any]
    refused: str = ""


class JavaProducers:
    """The Java client in the release `version`, loaded apart from other releases."""

    def __init__(self, gateway: JavaGateway, version: str) -> None:
        self._jvm = gateway.jvm
        urls = gateway.new_array(self._jvm.java.net.URL, 2)
        for index, jar in enumerate(jars.fetch(f"kafka-clients-{version}")):
            urls[index] = self._jvm.java.io.File(str(jar)).toURI().toURL()
        platform = self._jvm.java.lang.ClassLoader.getPlatformClassLoader()
        self._loader = self._jvm.java.net.URLClassLoader(urls, platform)
        properties = gateway.new_array(self._jvm.java.lang.Class, 1)
        properties[0] = self._jvm.java.util.Properties().getClass()
        producer, config = (
            self._loader.loadClass(f"org.apache.kafka.clients.producer.{name}")
            for name in ("KafkaProducer", "ProducerConfig")
        )
        self._producer = producer.getConstructor(properties)
        self._config = config.getConstructor(properties)
        self._arguments = gateway.new_array(self._jvm.java.lang.Object, 1)
        self._no_types = gateway.new_array(self._jvm.java.lang.Class, 0)
        self._no_arguments = gateway.new_array(self._jvm.java.lang.Object, 0)

    def takes(self, settings: Mapping[str, object]) -> bool:
        """Returns whether ProducerConfig takes `settings`."""
        return isinstance(self._made(self._config, settings), str) is False

    def effective(self, settings: Mapping[str, object]) -> Effective:
        """Returns what a KafkaProducer with `settings` has in force: read from its parts, not from its configuration,
        which may say what is not true."""
        producer = self._made(self._producer, settings)
        if isinstance(producer, str):
            return Effective({}, producer)
        try:
            return Effective(self._in_force(producer))
        finally:
            self._call(producer, "close")

    def _in_force(self, producer: Any) -> dict[str, Any]:
        sender, accumulator = self._field(producer, "sender"), self._field(producer, "accumulator")
        requests = self._field(self._field(sender, "client"), "inFlightRequests")
        values = self._jvm.java.util.HashMap(self._call(self._field(producer, "producerConfig"), "values"))
        names = ("batch.size", "buffer.memory", "retry.backoff.ms", "retry.backoff.max.ms", "reconnect.backoff.ms")
        more = ("reconnect.backoff.max.ms", "max.request.size", "metadata.max.age.ms", "compression.type")
        return {
            **{name: values.get(name) for name in (*names, *more)},
            "enable.idempotence": self._field(producer, "transactionManager") is not None,
            "acks": {-1: "all", 0: "0", 1: "1"}[self._field(sender, "acks")],
            "retries": self._field(sender, "retries"),
            "request.timeout.ms": self._field(sender, "requestTimeoutMs"),
            "max.in.flight.requests.per.connection": self._field(requests, "maxInFlightRequestsPerConnection"),
            "delivery.timeout.ms": self._field(accumulator, "deliveryTimeoutMs"),
            "linger.ms": self._field(accumulator, "lingerMs"),
        }

    def _made(self, constructor: Any, settings: Mapping[str, object]) -> Any:
        """Returns a new object, or the client's reason to refuse `settings`."""
        properties = self._jvm.java.util.Properties()
        for name, value in {**_OF_CLIENT, **settings}.items():
            properties.put(name, str(value))
        self._arguments[0] = properties
        self._jvm.java.lang.Thread.currentThread().setContextClassLoader(self._loader)
        try:
            return constructor.newInstance(self._arguments)
        except Py4JJavaError as error:
            cause = error.java_exception
            while cause.getCause() is not None:
                cause = cause.getCause()
            if not cause.getClass().getName().endswith("ConfigException"):
                raise
            return str(cause.getMessage())

    def _call(self, owner: Any, name: str) -> Any:
        """Calls the public method `name` of the Java object `owner`. By reflection, because py4j takes classes of the
        same name for one class, whichever release they are of."""
        return owner.getClass().getMethod(name, self._no_types).invoke(owner, self._no_arguments)

    def _field(self, owner: Any, name: str) -> Any:
        """Returns the value of the private field `name` of the Java object `owner`."""
        field = owner.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(owner)


@contextmanager
def jvm() -> Iterator[JavaGateway]:
    """Yields a connection to a new JVM without classes of Kafka. The JVM ends with the block."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    java = str(java_home() / "bin" / "java")
    port, token, process = launch_gateway(
        jarpath=str(jar), java_path=java, javaopts=["-Xmx300m"], enable_auth=True, die_on_exit=True, return_proc=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    try:
        yield gateway
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.kill()
        process.wait()

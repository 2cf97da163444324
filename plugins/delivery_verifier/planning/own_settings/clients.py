"""The client for which a file of settings was written: Java's or librdkafka's, in which version, and how the names in a
file show it.

Sources of the names: `ProducerConfig` of Apache Kafka 4.0.2 to 4.4.0, and librdkafka 2.16's own list of its properties
(`rd_kafka_conf_properties_show`). The defaults of the releases stand in `releases`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

from msgspec import Struct

from delivery_verifier.model.client import Client
from delivery_verifier.model.inputs import BadInput, bad_input, nearest
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning.own_settings import releases
from delivery_verifier.planning.own_settings.releases import Release, Version

EXERCISED = "librdkafka 2.16"
"""The librdkafka of every run."""
PROPOSED = ("java", "java:3.9", "java:3.1.0", "java:2.8", "librdkafka", "librdkafka:1.9", "librdkafka:0.11")
"""Clients that forms and shells propose: each without a version, and in versions with other defaults."""
_WRITTEN = re.compile(r"([a-z]+)(?::([0-9]+(?:\.[0-9]+){0,2}))?")


class ClientVersion(Struct, frozen=True):
    """A client, and the version that the user named, e.g. `(3, 1)`. An empty `version`: the user named none.

    `matching` has a row for each release that may be meant. The defaults are those of `release`: without a version, the
    newest row; with one, the oldest row that matches, because later patches promise no less.
    """

    client: Client
    version: Version = ()

    @property
    def matching(self) -> list[Release]:
        """The rows of the releases that may be meant, from the oldest to the newest."""
        return releases.matching(self.client, self.version)

    @property
    def release(self) -> Release:
        """The row whose defaults fill the gaps of the file."""
        return self.matching[0] if self.version else releases.newest(self.client)

    @property
    def number(self) -> str:
        """The number of the release whose defaults count, e.g. `3.1.0`, or `4.x`."""
        if not self.version:
            newest = self.release.last
            return f"{newest[0]}.x" if self.client == "java" else releases.text(newest)
        if len(self.matching) > 1:
            return releases.text(self.release.first)
        return releases.text(self.version) if len(self.version) > 1 else f"{self.version[0]}.x"

    @property
    def written(self) -> str:
        """The client as the user names it, e.g. `java:3.1`."""
        return f"{self.client}:{releases.text(self.version)}" if self.version else self.client

    @property
    def name(self) -> str:
        """The client and its version in words, e.g. `the Java client 4.x`."""
        return f"the Java client {self.number}" if self.client == "java" else f"librdkafka {self.number}"

    @property
    def is_exercised(self) -> bool:
        """Whether the librdkafka of every run is this one."""
        return self.name == EXERCISED


def parse(text: str, field: str = "written_for") -> ClientVersion:
    """Returns the client that `text` names, e.g. `java` or `java:3.1`.

    Raises BadInput, which shows `field`, if there is no such client, or if the defaults of this version are not known.
    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None or match[1] not in get_args(Client):
        allowed, near = get_args(Client), nearest(text.partition(":")[0], get_args(Client))
        remedy = f"did you mean {near}?" if near else ""
        raise bad_input(field, text, f"{', '.join(allowed)}, each also with a version, e.g. java:3.1", remedy)
    client: Client = "java" if match[1] == "java" else "librdkafka"
    version = tuple(int(number) for number in match[2].split(".")) if match[2] else ()
    rows = releases.RELEASES[client]
    covers_older = bool(version) and releases.padded(version, 0) < releases.padded(rows[0].first, 0)
    if covers_older or not releases.matching(client, version):
        what = "which covers versions" if releases.matching(client, version) else "a version"
        raise BadInput(
            f"{field} is {text!r}, {what} whose defaults are not known; allowed: "
            f"{releases.text(rows[0].first)} to {releases.text(rows[-1].last)}"
        )
    return ClientVersion(client, version)


def that_has(client: ClientVersion, what: str, since: Version, field: str) -> ClientVersion:
    """Returns the client that can have read a file which asks for `what`, e.g. a setting that Kafka has since `since`.

    Without a version, that is the newest major version: nothing may be said of those before `since`. Raises BadInput,
    which shows `field`, if the user named a version that covers releases before `since`.
    """
    newest = client.release.last[0]
    if not client.version:
        return ClientVersion(client.client, (newest,))
    if releases.padded(client.version, 0) < releases.padded(since, 0):
        raise BadInput(
            f"written_for is {client.written!r}, and {field} has {what}, which Kafka has since {releases.text(since)}; "
            f"allowed: {client.client}:{releases.text(since)} or later"
        )
    return client


def require_known(client: ClientVersion, versions: Iterable[Version], field: str) -> None:
    """Raises BadInput, which shows `field`, if `client` may be one of `versions`: releases of which a log does not show
    whether enable.idempotence=true is in force."""
    doubtful = [version for version in versions if version[: len(client.version)] == client.version]
    if doubtful:
        names = " and ".join(map(releases.text, doubtful))
        raise BadInput(
            f"written_for is {client.written!r}, and {field} is a log with enable.idempotence = true: the Java client "
            f"{names} logs that although it is not in force, unless the application sets it (KAFKA-13598); name "
            "another version, e.g. java:3.2, or give the application's own .properties file"
        )


def of_profile(profile: Profile) -> ClientVersion:
    """Returns the client for which the settings of `profile` were written. Raises BadInput if its version is not
    known."""
    return parse(
        f"{profile.written_for}:{profile.written_for_version}" if profile.written_for_version else profile.written_for
    )


LIBRDKAFKA_ONLY = frozenset(
    """
    request.required.acks message.send.max.retries max.in.flight message.timeout.ms queue.buffering.max.ms
    compression.codec enable.gapless.guarantee batch.num.messages compression.level message.max.bytes
    message.copy.max.bytes receive.message.max.bytes queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.backpressure.threshold socket.timeout.ms socket.max.fails socket.keepalive.enable
    socket.nagle.disable socket.send.buffer.bytes socket.receive.buffer.bytes topic.metadata.refresh.interval.ms
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse topic.metadata.propagation.max.ms
    metadata.broker.list sasl.mechanisms sasl.username sasl.password ssl.ca.location ssl.key.location
    ssl.certificate.location ssl.ca.pem ssl.key.pem ssl.certificate.pem enable.ssl.certificate.verification
    enable.sasl.oauthbearer.unsecure.jwt broker.address.ttl broker.address.family broker.version.fallback
    api.version.request api.version.fallback.ms log.queue log.connection.close log.thread.name
    statistics.interval.ms log_level debug partitioner
    """.split()
)
"""Property names that the Java client does not have. A file with such a name was written for librdkafka."""

JAVA_ONLY = frozenset(
    """
    key.serializer value.serializer buffer.memory max.block.ms max.request.size metadata.max.idle.ms
    partitioner.class partitioner.ignore.keys partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms
    interceptor.classes metric.reporters send.buffer.bytes receive.buffer.bytes sasl.jaas.config
    ssl.truststore.location ssl.truststore.password ssl.truststore.type ssl.keystore.type
    """.split()
)
"""Property names that librdkafka does not have. A file with such a name was written for the Java client."""

TRANSACTION_TIMEOUT_MS = 60_000
"""The default of transaction.timeout.ms in all releases of both clients."""


def client_of(names: Iterable[str]) -> Client:
    """Returns the client for which a file with these property `names` was written. The first rule that applies decides:

    1. A name is in LIBRDKAFKA_ONLY: librdkafka.
    2. A name is in JAVA_ONLY, or is enable.idempotence: the Java client.
    3. None of these is true: raises BadInput. The function cannot guess, because enable.idempotence is true by default
       in the Java client and false in librdkafka.
    """
    present = set(names)
    if LIBRDKAFKA_ONLY & present:
        return "librdkafka"
    if JAVA_ONLY & present or "enable.idempotence" in present:
        return "java"
    raise BadInput(
        "written_for: nothing in the file tells which client it was written for, and enable.idempotence, which it does "
        "not set, is on by default in the Java client and off in librdkafka; say --written-for java or --written-for "
        "librdkafka (with the version, if you know it: java:3.1), or choose the client in the form"
    )

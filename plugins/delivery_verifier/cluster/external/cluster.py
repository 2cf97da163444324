"""Access to a cluster that somebody else runs, in every process of the run: the file with the connection is read again,
and the brokers are asked where they are now."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from delivery_verifier.cluster.check import facts
from delivery_verifier.cluster.check.cluster_check import Unreachable
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol.asking import Asking
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.cluster.security import command_config
from delivery_verifier.cluster.security.reading import Access
from delivery_verifier.model.external_cluster import ClusterAccess


class OtherCluster(Unreachable):
    """The servers that the run named belong to another cluster now."""


def read(access: ClusterAccess) -> Access:
    """Returns what the options of `access` give now. Raises BadInput and UnsupportedSecurity as `command_config.read`
    does."""
    return command_config.read(access.bootstrap_server, access.command_config, access.command_property, access.cluster)


class SharedCluster:
    """The cluster with the id `cluster_id`. `known` has the addresses of its brokers as they were first found.

    `brokers` are those that hold replicas of the run. `connection` has every broker that the cluster names, because
    others keep e.g. the groups and transactions of the run. A broker that the cluster does not name now keeps the
    address that it had.
    """

    def __init__(
        self, access: ClusterAccess, cluster_id: str, known: Mapping[int, Address], brokers: tuple[int, ...] = ()
    ) -> None:
        self._access, self._cluster_id, self._known, self._brokers = access, cluster_id, dict(known), brokers

    @property
    def brokers(self) -> list[int]:
        return sorted(self._brokers or self.connection.brokers)

    @cached_property
    def connection(self) -> Connection:
        """Raises Unreachable if no server answers, and OtherCluster if the first that does belongs to another
        cluster."""
        access = read(self._access)
        members = _members(access, self._known)
        if members.cluster_id != self._cluster_id:
            raise OtherCluster(
                f"bootstrap.servers: they belong to the cluster {members.cluster_id} now, and the run began on "
                f"{self._cluster_id}; remedy: point them at the first one again"
            )
        addresses = {broker.number: broker.address for broker in members.brokers}
        return Connection({**self._known, **addresses}, access.security, may_move=True)

    @cached_property
    def requests(self) -> BrokerRequests:
        return BrokerRequests(self.connection)

    @cached_property
    def asking(self) -> Asking:
        """Sends requests that a run needs only here."""
        return Asking(self.connection)


def _members(access: Access, known: Mapping[int, Address]) -> facts.Members:
    """Asks the bootstrap servers, and then the brokers as they were, one after another, until one answers."""
    servers = list(dict.fromkeys([*access.servers, *known.values()]))
    asking, failures = Asking(Connection(dict(enumerate(servers)), access.security)), list[str]()
    for number, server in enumerate(servers):
        try:
            return facts.members(asking, number)
        except OSError as error:
            failures.append(f"{server}: {error or type(error).__name__}")
    raise Unreachable("no server of the cluster answers; " + "; ".join(failures))

"""The settings of brokers that the verifier relies on. They are the same for every backend.

With other settings, brokers could move leaders or create topics by themselves. They could also notice a fault at
another time than the contract and the fault plans assume.
"""

from __future__ import annotations

from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.scenario import ClusterSpec

COMMON: dict[str, Setting] = {
    "auto.create.topics.enable": "false",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "200",
    "replica.lag.time.max.ms": "30000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
}
"""Settings of every broker. `ClusterSpec.broker_settings` may replace them."""


def controller_settings(spec: ClusterSpec) -> dict[str, Setting]:
    """Returns the settings that the controller obeys. Every node gets these settings, brokers too.

    The two settings `broker.*` set the time after which the controller fences a silent broker. The other two settings
    forbid the controller to move leaders back to the preferred replicas, and to elect a leader from outside the ISR.
    """
    return {
        "unclean.leader.election.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "broker.session.timeout.ms": spec.session_timeout_ms,
        "broker.heartbeat.interval.ms": spec.heartbeat_interval_ms,
    }


def settings_of(spec: ClusterSpec) -> dict[str, str]:
    """Returns the settings of every broker of the cluster that `spec` describes. All values are texts."""
    replicas = min(3, spec.brokers)
    settings: dict[str, Setting] = {
        **controller_settings(spec),
        **COMMON,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
        **spec.broker_settings,
    }
    return {name: setting_text(value) for name, value in settings.items()}

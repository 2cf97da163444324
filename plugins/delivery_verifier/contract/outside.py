"""What somebody else did to brokers, derived from observations alone.

From outside, nobody sees processes. What is seen is whether a broker answers, who leads, and who is in sync. From these
follow the injections of the fault plan `observe`, whoever broke the brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from delivery_verifier.model.history import Injection, Observation

OBSERVE = "observe"
"""The action whose injections are derived."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What is known of the cluster and the load beside the observations. All times are in µs.

    * `replicas`: the brokers with a replica of each partition that carries load.
    * `load_us`: when the load began, and until when it is looked at (µs since the epoch).
    * `notice_us`: how long the cluster may take to notice that a broker is gone: the greater of
      broker.session.timeout.ms and replica.lag.time.max.ms.
    * `leaders_return`: whether leaders move back by themselves (auto.leader.rebalance.enable). An injection then lasts
      until they have.
    * `silence_counts`: whether a broker that does not answer says anything about itself. Not if several brokers have
      one address, e.g. that of a load balancer.
    """

    replicas: Mapping[tuple[str, int], frozenset[int]]
    load_us: tuple[int, int]
    notice_us: int = 30_000_000
    leaders_return: bool = True
    silence_counts: bool = True


def injections_from_outside(
    observations: Sequence[Observation], outside: Outside, action: str = OBSERVE, first_id: int = 0
) -> list[Injection]:
    """Returns an injection for each time that a broker was taken out while the load flowed, in the order in which they
    began. `observations` must be in the order in which they were made.

    A broker is taken out when it leaves an ISR, or leads no more and nobody follows it, and it led a partition until
    then, or did not answer. A leader that moves, or a replica that lags, takes no broker out. A broker that was taken
    out again after it was back in all its ISRs gives another injection.

    * `brokers`: the one broker that was taken out. `hit`, `led`: as of every injection (see `Injection`).
    * `effect_at_us`: the first sign: the last answer of the broker before it was silent, or the change in which it was
      deposed, whichever is earlier. If it always answered, the cut may be `notice_us` older: then that much earlier.
    * `healed_at_us`: when it was back in all its ISRs. `recovered_at_us`: when every partition had all its replicas
      in sync and, if `leaders_return`, the leader that it had at first. Both are None if this was not seen.
    * `proof`: `before` as of every injection, and `observed`: each sign in words, with its time.

    Nothing is returned of what began before the load, or after the time until which it is looked at. `action` is the
    action of each injection, and `first_id` the id of the first one.
    """
    raise NotImplementedError

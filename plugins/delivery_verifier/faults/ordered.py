"""Actions on brokers that somebody else runs: a command of the operator orders each, and what the observer then sees
from outside proves it.

The exit code of a command proves nothing. A command that fails, hangs, or prints a secret has failed, whatever it did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from delivery_verifier.cluster.external import commands
from delivery_verifier.cluster.external.commands import Ordered
from delivery_verifier.cluster.external.register import Entry, Register
from delivery_verifier.cluster.external.whole import answers, is_cut_off, is_whole
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.contract.outside import Silence
from delivery_verifier.faults import sightings
from delivery_verifier.faults.action import Action, ActionContext, ActionProof, Done
from delivery_verifier.faults.observing import has_own_addresses
from delivery_verifier.faults.open_injection import OpenInjection, Order
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.act import links_cut
from delivery_verifier.model.data import Setting
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.external_cluster import REBALANCE
from delivery_verifier.model.history import Observation, now_us
from delivery_verifier.model.operator_commands import COMMANDABLE, HEALED_BY
from delivery_verifier.model.scenario import Scenario

_LOOK_EVERY_S = 0.2


class CommandFailed(VerifierError, RuntimeError):
    """A command of the operator failed, or may not be run now."""


class Orders:
    """The commands of one run, and what they were ordered to do.

    `log` has every command that was run. The constructor raises StepFailed if the file has changed since the run was
    planned, and BadInput if it cannot be used any more.
    """

    def __init__(self, cluster: Cluster, scenario: Scenario) -> None:
        external = scenario.cluster.external
        assert external is not None and external.commands is not None, "only a run with commands has orders"
        self._external, self._cluster, self._commands = external, cluster, commands.of_run(external.commands)
        self._secrets = commands.secrets_to_hide(external.access)
        self._register = Register.of_run(external.cluster_id, cluster.workspace.name)
        self._standing: dict[int, dict[str, Entry]] = {}
        self._seen = set[tuple[str, int]]()
        self.log: list[Order] = []

    @property
    def effect_s(self) -> float:
        """How long an effect may take to be seen, in seconds."""
        return self._commands.operator.effect_s

    @property
    def whole_s(self) -> float:
        """How long the cluster may take to be whole again, in seconds."""
        return self._commands.operator.whole_s

    @property
    def leaders_return(self) -> bool:
        """Whether leaders move back by themselves, or nobody knows whether they do."""
        return (self._external.settings or {}).get(REBALANCE, "true") != "false"

    def broken(self) -> list[int]:
        """Returns the brokers that were ordered to be broken, and have not been seen to be whole since."""
        return sorted(self._standing)

    def in_evidence(self, injections: Sequence[OpenInjection]) -> None:
        """Adds to each injection the commands that were run for its brokers, to break or to heal them, until the next
        injection of them. An injection one of whose commands failed has no proof, whatever was seen."""
        for order in self.log:
            of_broker = [each for each in injections if order.broker in each.brokers]
            if before := [each for each in of_broker if each.requested_at_us <= order.at_us]:
                in_proof = before[-1].proofs.ordered
                in_proof[f"{len(in_proof) + 1}: {order.action} of broker {order.broker}"] = order
                if order.problem and before[-1].proofs.failed is None:
                    before[-1].fail(f"a command failed: {order.action} of broker {order.broker}: {order.problem}")

    def stands(self, action: str, broker: int) -> bool:
        """Returns whether `action` was ordered for `broker`, and nothing has ended it."""
        return action in self._standing.get(broker, {})

    def order(self, action: str, brokers: Sequence[int], options: Mapping[str, Setting] | None = None) -> None:
        """Runs the command for `action` for all `brokers` at once.

        Raises CommandFailed if one of the commands failed. What they did until then is not known.
        """
        if COMMANDABLE[action].takes_effect:
            for broker in brokers:
                entry = self._register.ordered(action, broker)
                self._standing.setdefault(broker, {})[action] = entry
                self._seen.discard((action, broker))
        links = ",".join(links_cut(options or {}))
        at_us = now_us()
        with ThreadPoolExecutor(len(brokers), "command") as pool:
            ended = list(pool.map(lambda broker: self._run(action, broker, links), brokers))
        entries = [_order(action, broker, at_us, each) for broker, each in zip(brokers, ended, strict=True)]
        self.log += entries
        if problems := [f"{action} of broker {each.broker}: {each.problem}" for each in entries if each.problem]:
            raise CommandFailed(f"a command of {self._commands.described.name} failed: {'; '.join(problems)}")

    def _run(self, action: str, broker: int, links: str) -> Ordered:
        values = {"broker": str(broker), "host": self._cluster.connection.brokers[broker].host, "links": links}
        # If this process is killed, the run's agent ends the command.
        try:
            return self._commands.run(action, values, self._secrets, self._cluster.agent.adopt)
        except Exception as error:  # what the command did is not known, so it has failed, and is healed
            problem = f"it could not be followed to its end ({type(error).__name__})"
            return Ordered(list(self._commands.operator.actions[action].command), None, 0.0, "", problem)

    def saw(self, action: str, broker: int) -> None:
        """Notes that the effect of `action` on `broker` was seen, and that its command did not fail."""
        self._seen.add((action, broker))

    def end(self, healing: str, brokers: Sequence[int]) -> None:
        """Waits until `brokers` are whole again, or orders `healing`: for those that are not, and for those on which
        the effect of a fault was not seen. It may be there in part, or come late. If its command fails, what is seen
        decides all the same.

        Raises DeadlinePassed, which names the brokers, if they do not come back.
        """
        self._end([healing], brokers)

    def _end(self, healings: Sequence[str], brokers: Sequence[int]) -> None:
        standing = [each for each in brokers if each in self._standing]  # to others, no order has done anything
        for healing in healings:
            self._order_end(healing, standing)
        self._await_whole(standing, self.whole_s)
        for broker in standing:
            for healing in healings:
                for fault in COMMANDABLE[healing].heals:
                    self._ended(fault, broker)

    def _order_end(self, healing: str, brokers: Sequence[int]) -> None:
        of_action = self._commands.operator.actions.get(healing)
        brokers = [each for each in brokers if self._faults(healing, each)]
        if of_action is None or not brokers:
            return
        if of_action.by_itself_s:
            with suppress(DeadlinePassed):
                self._await_whole(brokers, of_action.by_itself_s)
        not_whole = self._not_whole(brokers)
        if of_action.command and (due := [b for b in brokers if b in not_whole or self._unseen(healing, b)]):
            with suppress(CommandFailed):  # stands in the log, so the injection has no proof
                self.order(healing, due)

    def _faults(self, healing: str, broker: int) -> list[str]:
        """Returns the standing faults of `broker` that `healing` ends."""
        return [fault for fault in COMMANDABLE[healing].heals if self.stands(fault, broker)]

    def _unseen(self, healing: str, broker: int) -> bool:
        return any((fault, broker) not in self._seen for fault in self._faults(healing, broker))

    def replaced(self, action: str, brokers: Sequence[int]) -> None:
        """Notes that `action` has ended what others had done to `brokers`, e.g. a kill the freeze."""
        for broker in brokers:
            for before in COMMANDABLE[action].heals:
                self._ended(before, broker)

    def heal(self) -> Done:
        """Ends all that was ordered and has not been ended, and then waits. Orders nothing for a broker that no order
        has broken. Raises as `end` does."""
        at_us = now_us()
        if broken := self.broken():
            self._end(list(dict.fromkeys(HEALED_BY.values())), broken)
        return Done(at_us)

    def give_up(self) -> None:
        """Orders nothing any more. The register keeps the brokers that are not back."""
        self._standing.clear()

    def _ended(self, action: str, broker: int) -> None:
        """Forgets an order. The register keeps one whose effect was not seen, which may come late: at the end of the
        run, somebody looks again."""
        standing = self._standing.get(broker, {})
        if (entry := standing.pop(action, None)) and (action, broker) in self._seen:
            self._register.gone(entry)
        if not standing:
            self._standing.pop(broker, None)

    def _not_whole(self, brokers: Sequence[int]) -> list[int]:
        return [broker for broker in brokers if not is_whole(self._cluster.backend, broker)]

    def _await_whole(self, brokers: Sequence[int], deadline_s: float) -> None:
        def said() -> str:
            return f"({', '.join(f'broker {broker}' for broker in self._not_whole(brokers)) or 'now all'} not back)"

        message = f"brokers {list(brokers)} to be whole again; if they stay away, start them by hand"
        wait_until(lambda: not self._not_whole(brokers), message, deadline_s, _LOOK_EVERY_S, said)


def _order(action: str, broker: int, at_us: int, ended: Ordered) -> Order:
    return Order(
        action=action,
        broker=broker,
        at_us=at_us,
        command=ended.words,
        exit_code=ended.exit_code,
        took_s=round(ended.took_s, 3),
        output=ended.output,
        problem=ended.problem,
    )


@dataclass(frozen=True)
class Broken:
    """Orders the fault `name`, and waits until it is seen that the brokers that were meant are the ones that are hit.

    Proof, of each broker: it answered until the order, and after it nothing for some time. If it was frozen
    before, it must have refused connections since. A frozen broker never refuses, and answers nothing until it is
    resumed: an answer that only came late is no freeze. A broker that is cut off from the controller alone goes on
    answering, and no other broker knows it as one that lives.
    """

    name: str
    orders: Orders

    def do(self, context: ActionContext) -> Done:
        """Orders the fault, and waits for its effect. Raises CommandFailed and DeadlinePassed."""
        self._require_answers(context)
        asked_us = now_us()
        try:
            self.orders.order(self.name, context.brokers, context.options)
        except CommandFailed:
            with suppress(DeadlinePassed):  # what a failed command has begun may come late, and has to be healed
                self._await(context, asked_us)
            raise
        try:
            self._await(context, asked_us)
        finally:
            for broker in self._shown(context, asked_us):
                self.orders.saw(self.name, broker)
        self.orders.replaced(self.name, context.brokers)
        observed = sightings.observations(context.cluster)
        begins = [self._began_us(observed, broker, asked_us) for broker in context.brokers]
        return Done(max(asked_us, min(begins)), {"ordered_at_us": asked_us})

    def _await(self, context: ActionContext, asked_us: int) -> None:
        done, message = Done(asked_us), f"{self.name} of brokers {context.brokers} to be seen from outside"
        wait_until(lambda: bool(self.proof(context, done)), message, self.orders.effect_s, _LOOK_EVERY_S)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns what shows the effect on each broker. The keys are `broker <id>`. Empty if one shows none."""
        shown = self._shown(context, int(str(done.facts.get("ordered_at_us", done.at_us))))
        return {f"broker {each}": text for each, text in shown.items()} if len(shown) == len(context.brokers) else {}

    def _shown(self, context: ActionContext, asked_us: int) -> dict[int, str]:
        """Returns what shows the effect, by the broker that shows one."""
        if self._leaves_it_answering(context):
            cut = [each for each in context.brokers if is_cut_off(context.cluster.backend, each)]
            return dict.fromkeys(cut, "it answers, and no other broker knows it as one that lives")
        observed = sightings.observations(context.cluster)
        silent = {broker: self._silence(observed, broker, asked_us) for broker in context.brokers}
        return {broker: _in_words(silence) for broker, silence in silent.items() if silence}

    def _leaves_it_answering(self, context: ActionContext) -> bool:
        return self.name == "isolate" and "client" not in links_cut(context.options)

    def _require_answers(self, context: ActionContext) -> None:
        """Raises CommandFailed if nobody could tell what the order did: a broker did not answer before, or brokers have
        one address, e.g. that of a load balancer."""
        if not has_own_addresses(context.cluster.connection):
            raise CommandFailed(f"{self.name} was not ordered: brokers have one address, so nobody sees which answers")
        healed = COMMANDABLE[self.name].heals
        for broker in context.brokers:
            if any(self.orders.stands(fault, broker) for fault in healed):
                continue
            if not answers(context.cluster.backend, broker):
                raise CommandFailed(f"{self.name} was not ordered: broker {broker} did not answer before")

    def _silence(self, observed: Sequence[Observation], broker: int, asked_us: int) -> Silence | None:
        """Returns the silence of `broker` that the order has begun, if it has lasted long enough."""
        silence = sightings.silence_since(observed, broker, asked_us, now_us())
        is_frozen = COMMANDABLE[self.name].does == "frozen"
        if silence is None or not is_frozen:
            return silence
        return None if silence.refused or silence.until_us is not None else silence

    def _began_us(self, observed: Sequence[Observation], broker: int, asked_us: int) -> int:
        """Returns the first sign of the effect, as µs since the epoch: the last answer, or when the broker was seen to
        be deposed. If it always answered: the order."""
        silence, deposed = self._silence(observed, broker, asked_us), sightings.deposed_us(observed, broker, asked_us)
        signs = [silence.since_us] if silence else [asked_us]
        return min([*signs, *([deposed] if deposed is not None else [])])


def _in_words(silence: Silence) -> str:
    how = "it refused connections" if silence.refused else "nothing came back"
    return f"no answer from {silence.seen_us} to {silence.until_us or 'now'} (µs since the epoch): {how}"


@dataclass(frozen=True)
class Healed:
    """Ends what was ordered: waits until the brokers come back by themselves, or orders the action `name`."""

    name: str
    orders: Orders

    def do(self, context: ActionContext) -> Done:
        """Waits until the brokers are whole again. Raises DeadlinePassed."""
        at_us = now_us()
        self.orders.end(self.name, context.brokers)
        return Done(at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns an empty proof: `do` has seen them."""
        return {}


def actions(orders: Orders) -> dict[str, Action]:
    """Returns the actions that commands order, by name."""
    return {name: (Broken if act.takes_effect else Healed)(name, orders) for name, act in COMMANDABLE.items()}

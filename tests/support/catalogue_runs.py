"""Made-up catalogue runs: attempts of every state, and a runner whose runs end as a script says."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from msgspec.structs import replace

from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.catalogue.scenarios import ENTRIES
from delivery_verifier.model.catalogue_run import ArmResult, Attempt, CatalogueRun, Item, State
from delivery_verifier.model.scenario import Role, VerdictName
from delivery_verifier.suite.selection import KINDS

AT = "2026-11-21T14:00:00+00:00"


def arm(
    name: str = "acks_1",
    verdict: VerdictName = "VIOLATED",
    *,
    as_expected: bool = True,
    role: Role = "subject",
    **more: object,
) -> ArmResult:
    """Returns a made-up result of an arm."""
    return ArmResult(
        arm=name,
        role=role,
        profile=name,
        claim="at_least_once",
        verdict=verdict,
        as_expected=as_expected,
        expected="VIOLATED",
        counts={"lost": 100, "duplicated": 0, "reordered": 0, "failed": 0, "indeterminate": 3},
        longest_gap_s=3.25,
        latency_ms_p99=12.5,
        records_per_s=410.0,
        **more,
    )  # type: ignore[arg-type]


def attempt(state: State, run: str = "a-run") -> Attempt:
    """Returns a made-up attempt (one run of an entry) that leaves its item in `state`."""
    if state == "failed":
        return Attempt(run=run, started_at=AT, seconds=3.0, error="broker 1 ended while starting")
    verdict: VerdictName = "INCONCLUSIVE" if state == "inconclusive" else "VIOLATED"
    arms = [arm(verdict=verdict, as_expected=state == "as expected"), arm("safe", "HELD", role="control")]
    return Attempt(
        run=run,
        started_at=AT,
        seconds=31.0,
        verdict=verdict,
        green=state == "as expected",
        arms=arms,
        doubts=["no_effect: the fault did not take effect"] if state == "inconclusive" else [],
    )


def item(name: str, *states: State, **more: object) -> Item:
    """Returns a made-up item (an entry with its attempts) with one attempt for each of `states`."""
    return Item(
        name=name,
        title=f"{name}: a title",
        kind="acks",
        tags=("smoke",),
        fault="frozen_followers",
        attempts=tuple(attempt(state, f"c-{name}-{number}") for number, state in enumerate(states, 1)),
        **more,
    )  # type: ignore[arg-type]


def catalogue(*items: Item, ended: bool = True, **more: object) -> CatalogueRun:
    """Returns a made-up catalogue run. `more` overrides its fields."""
    given: dict[str, object] = {
        "id": "c",
        "wanted": "everything",
        "expect_unavailable": (),
        "direct": True,
        "rounds": 1,
        "started_at": AT,
        "versions": {"kafka": "4.3.1"},
        "commit": "abc",
        "machine": "2 CPUs",
        "items": items,
        "ended_at": AT if ended else "",
    } | more
    return CatalogueRun(**given)  # type: ignore[arg-type]


def whole() -> CatalogueRun:
    """Returns a made-up catalogue run of all entries. A few of its items are not as expected: one is inconclusive, one
    failed, one was not run yet, and those that need power to be cut are unavailable."""
    states: dict[str, tuple[State, ...]] = {
        "order.stalled_leader": ("inconclusive", "not as expected"),
        "transform.end_lost": ("inconclusive", "inconclusive"),
        "group.rewind": ("failed",),
        "database.apart": (),
    }
    items = []
    for name, entry in ENTRIES.items():
        of_entry = () if name.startswith("power") else states.get(name, ("as expected",))
        items.append(
            Item(
                name=name,
                title=entry.title,
                kind=KINDS[name],
                tags=entry.tags,
                fault=entry.fault.name,
                promise=entry.promise,
                unavailable="no loop device: modprobe loop, or run it as root" if name.startswith("power") else "",
                expected_unavailable=name != "power.all_brokers",
                attempts=tuple(_attempt_of(entry, state, f"c-{name}-{at}") for at, state in enumerate(of_entry, 1)),
            )
        )
    return catalogue(*items)


def _attempt_of(entry: Entry, state: State, run: str) -> Attempt:
    begun = attempt(state, run)
    if state == "failed":
        return begun
    arms = []
    for position, plan in enumerate(entry.arms):
        verdict: VerdictName = plan.expectation.verdicts[0]
        as_expected = state == "as expected" or position > 0
        if not as_expected:
            verdict = "INCONCLUSIVE" if state == "inconclusive" else "HELD" if verdict == "VIOLATED" else "VIOLATED"
        application = plan.application.name if plan.application else ""
        hurt = {"skipped": 12, "reapplied": 40} if application else {"lost": 100 - position, "duplicated": 3}
        arms.append(
            ArmResult(
                arm=plan.name,
                role=plan.role,
                profile=plan.profile.name,
                claim="contract",
                verdict=verdict,
                as_expected=as_expected,
                expected=" or ".join(plan.expectation.verdicts),
                sentence=f"{verdict}: a sentence about {plan.name}, 41,210 acknowledged records and one fault.",
                application=application,
                counts={"lost": 0, "duplicated": 0, "reordered": 0, "failed": 0, "indeterminate": 3}
                | (hurt if verdict == "VIOLATED" else {}),
                longest_gap_s=3.25,
                latency_ms_p99=12.5,
                records_per_s=410.0,
            )
        )
    return replace(begun, arms=arms)


class Scripted:
    """A stand-in for a Runner, which runs nothing. `script` holds, per entry, the states in which the entry's runs end,
    in order.

    `begun` are the names of the runs that were begun.
    """

    def __init__(self, script: dict[str, list[State]]) -> None:
        self.script, self.begun = {name: list(states) for name, states in script.items()}, list[str]()

    def begin(self, entry: str, run: str, before_load: Callable[[], None]) -> Future[Attempt]:
        self.begun.append(run)
        before_load()
        future: Future[Attempt] = Future()
        future.set_result(attempt(self.script[entry].pop(0), run))
        return future

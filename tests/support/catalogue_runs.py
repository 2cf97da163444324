"""Made-up catalogue runs: attempts of every state, and a runner whose runs end as a script says."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from delivery_verifier.model.catalogue_run import ArmResult, Attempt, CatalogueRun, Item, State
from delivery_verifier.model.scenario import Role, VerdictName

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
        doubts=["no_bite: the fault did not bite"] if state == "inconclusive" else [],
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

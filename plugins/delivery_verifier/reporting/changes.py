"""What to change, as the verdict says it, and the price of each change on this host. The cheapest change comes
first."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from delivery_verifier.model.advice import Advice, Option
from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.reporting.measured import Measured, PriceRuns

OPTIONS_SHOWN = 5
"""The greatest number of changes that the page shows for one arm."""
SUBJECTS_SHOWN = 3
"""The greatest number of arms about which the page says what to change."""


@dataclass(frozen=True)
class PricedOption:
    """One change of settings, with its price. `change`, `command`: see `model.advice.Option`. `effect`: sentences on
    what the fault could do with the changed settings, and not with those of the arm; empty if that is nothing.
    `permits`: the anomalies that `effect` is about, in words, e.g. `skipped`; only of a change that prevents another
    one."""

    change: str
    effect: list[str]
    price: Measured
    command: str = ""
    permits: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PricedAdvice:
    """The advice of a verdict for one arm, with prices. `now`: the settings of the arm. `options`: the changes that are
    shown. `advice`: what the verdict says."""

    advice: Advice
    now: PricedOption | None
    options: list[PricedOption]

    @property
    def priced(self) -> bool:
        """Whether the price of at least one option is known or can be measured."""
        return bool(self.to_measure) or any(option.price.day for option in self.options)

    @property
    def to_measure(self) -> str:
        """The `kdv price` command that measures the missing prices. Empty if no price is missing, or if the missing
        prices cannot be measured."""
        shown = [*([self.now] if self.now else []), *self.options] if self.options else []
        profiles = list(dict.fromkeys(option.price.unmeasured for option in shown if option.price.unmeasured))
        return f"kdv price --profiles {','.join(profiles)}" if profiles else ""


def priced_advices(advices: list[Advice], runs: Path | None) -> list[PricedAdvice]:
    """Returns the first SUBJECTS_SHOWN of the advices of a verdict, with prices. `runs`: the folder with the price runs
    of this host; None: no price is known."""
    prices = PriceRuns(runs)
    return [_priced(advice, prices) for advice in advices[:SUBJECTS_SHOWN]]


def _priced(advice: Advice, prices: PriceRuns) -> PricedAdvice:
    options = [
        _option(option, prices, [KINDS[Anomaly(each.anomaly)].participle for each in option.permits])
        for option in advice.options
    ]
    # In an arm that held, a change that gives up one promise for another comes last, whatever its price is.
    options.sort(key=lambda option: (advice.kind == "held" and bool(option.permits), option.price.rank))
    options += [_loosening(option, prices) for option in advice.loosenings]
    now = _option(advice.now, prices, []) if advice.now else None
    return PricedAdvice(advice, now, options[:OPTIONS_SHOWN])


def _option(option: Option, prices: PriceRuns, permits: list[str]) -> PricedOption:
    effect = list(dict.fromkeys(permit.sentence for permit in option.permits))
    return PricedOption(option.change, effect, prices.price_of(option.price_of), option.command, permits)


def _loosening(option: Option, prices: PriceRuns) -> PricedOption:
    """Returns a change that would give up a promise. One sentence on that is enough."""
    return PricedOption(
        option.change, [permit.sentence for permit in option.permits][:1], prices.price_of(option.price_of)
    )

"""Ready-made choices: profiles, fault plans, scenarios, prices.

Owns: literals, and the few functions that put them together.
May use: model.
Weak spot: what a scenario must end with is written by hand, and only a run on real brokers proves it.
"""

from delivery_verifier.catalogue.entry import build
from delivery_verifier.catalogue.faults import FAULTS
from delivery_verifier.catalogue.prices import PRICES
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.catalogue.scenarios import ENTRIES
from delivery_verifier.catalogue.single import CANARY, CONTROL_SHARE, WEAK, scenario, token

SCENARIOS = {**ENTRIES, **PRICES}
"""Everything that can be run by name."""

__all__ = [
    "CANARY",
    "CONTROL_SHARE",
    "ENTRIES",
    "FAULTS",
    "PRICES",
    "PROFILES",
    "SCENARIOS",
    "WEAK",
    "build",
    "scenario",
    "token",
]

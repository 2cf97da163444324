"""The catalogue: ready-made profiles, applications, fault plans, scenarios and prices (measurements of what a guarantee
costs).

A fault plan here only combines actions. A new action goes into `model/fault_actions.py`, and the code of the action
into `faults`.

Owns: the profiles, applications, fault plans, scenarios and prices as literals, and the few functions that put these
    literals together.
May use: model.
Weak spot: the expectations of a scenario are written by hand. Only a run on real brokers shows whether they are right.
"""

from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.catalogue.entry import build
from delivery_verifier.catalogue.faults import FAULTS, LONGEST_FAULT_S, USUAL_S, for_one_replica, lasting
from delivery_verifier.catalogue.prices import PRICES
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.catalogue.scenarios import ENTRIES
from delivery_verifier.catalogue.single import CANARY, CONTROL_SHARE, scenario, token
from delivery_verifier.model.scenario import FEWEST_RECORDS

SCENARIOS = {**ENTRIES, **PRICES}
"""Every entry of the catalogue, by its name: the scenarios that test promises, and the measurements of prices."""

__all__ = [
    "APPLICATIONS",
    "CANARY",
    "CONTROL_SHARE",
    "ENTRIES",
    "FAULTS",
    "FEWEST_RECORDS",
    "LONGEST_FAULT_S",
    "PRICES",
    "PROFILES",
    "SCENARIOS",
    "USUAL_S",
    "build",
    "for_one_replica",
    "lasting",
    "scenario",
    "token",
]

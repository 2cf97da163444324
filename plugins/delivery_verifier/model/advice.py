"""What a verdict says beside its findings: what to change, and why single records show an anomaly.

The texts are decided once, when the run is judged, and stored in verdict.json.
"""

from __future__ import annotations

from typing import Literal

from delivery_verifier.model.data import Data


class Permit(Data, frozen=True):
    """An anomaly that changed settings permit. `sentence`: the sentence of the rule that permits it."""

    anomaly: str
    sentence: str


class Option(Data, frozen=True):
    """One change of settings.

    * `change`: its text, e.g. `acks=all`. If two changes are necessary, the text names both.
    * `permits`: the anomalies that the changed settings permit, and that those of the arm forbid.
    * `command`: the command that repeats the run with the change; empty if there is none.
    * `price_of`: the profile for which `kdv price` measures the price of the changed settings; empty if it measures
      none.
    """

    change: str
    permits: list[Permit] = []
    command: str = ""
    price_of: str = ""


class Advice(Data, frozen=True):
    """What to change in one arm.

    * `kind`: `held` (nothing has to change), `remedy` (other settings would have held), `none` (no settings would
      have held) or `withheld` (the run decides nothing).
    * `lead`: the answer in one sentence. `text`: the reason.
    * `now`: those settings of the arm that are in question, to compare the options with. None if there is nothing to
      compare.
    * `options`: each of these changes alone prevents what was found, or what only luck has prevented. If the arm held,
      those that permit another anomaly come last.
    * `loosenings`: each of these changes alone would give up what the arm promises and has kept.
    * `beside`: sentences on the other arms that held under the same fault.
    """

    kind: Literal["held", "remedy", "none", "withheld"]
    arm: str
    lead: str
    text: str = ""
    now: Option | None = None
    options: list[Option] = []
    loosenings: list[Option] = []
    beside: list[str] = []


class Committed(Data, frozen=True):
    """The first commit after which a group is not given a record any more, as the brokers wrote it down.

    `offset`: the committed offset. `at_us`: its time (µs since the epoch). `by`: which member sent it, in words with a
    space in front; empty if nobody knows. `killed_at_us`: when the members were killed, if a kill was the first thing
    that ended them after the commit; None otherwise.
    """

    offset: int
    at_us: int
    by: str
    killed_at_us: int | None


CLAIMS_NAMED = 3
"""How many claims `Example.claims` has at most."""


class Example(Data, frozen=True):
    """One case of an anomaly, and why it came about.

    * `record`: the name of the record (see `run_directory.cases.record_name`).
    * `why`: how the settings, the program behind the topic and what happened to the cluster led to the case, in
      sentences; empty if that is not known.
    * `claims`: in an audit, the claims of the first cases, each with its file and line; at most CLAIMS_NAMED.
    * `is_group_known`: whether the brokers' log of the group of a user's own program was read. `committed`: the commit
      that covers the record; None if there is none, or if it is not known.
    """

    anomaly: str
    record: str
    why: str
    claims: list[str] = []
    is_group_known: bool = False
    committed: Committed | None = None

"""The form with which a user triggers the DAG verify_catalogue in the Airflow UI.

The DAG runs many scenarios. The form asks which scenarios to run. It also asks which scenarios this host may be unable
to run because it lacks a capability.
"""

from __future__ import annotations

import os
import re

from airflow.sdk import Param

from delivery_verifier import catalogue
from delivery_verifier.model import external_cluster, operator_commands
from delivery_verifier.planning import choices
from delivery_verifier.planning.request import FIELDS
from delivery_verifier.suite import selection

CLUSTER = "KDV_NIGHTLY_CLUSTER"
"""The environment variable that names the cluster of catalogue runs by schedule, if somebody else runs it."""
_EXPECTABLE = "|".join(map(re.escape, selection.EXPECTABLE))
"""A regular expression that matches each word that the field `expect_unavailable` may hold."""


def params() -> dict[str, Param]:
    """Returns the form's fields by name, in the order of the form.

    A scheduled catalogue run uses the defaults, which select every scenario. The default of `expect_unavailable` is the
    value of KDV_EXPECT_UNAVAILABLE on this host, and that of `cluster` the value of KDV_NIGHTLY_CLUSTER.
    """
    return {
        "tag": Param(
            "",
            type="string",
            enum=["", *selection.tags()],
            title="Tag",
            values_display={"": "all scenarios"},
            description="Only scenarios with this tag.",
        ),
        "names": Param(
            [],
            type="array",
            examples=list(catalogue.ENTRIES),
            title="Scenarios",
            items={"type": "string"},
            values_display={name: f"{name}: {entry.title}" for name, entry in catalogue.ENTRIES.items()},
            description="Only these scenarios; none chosen: all.",
        ),
        "expect_unavailable": Param(
            ", ".join(selection.expectable(selection.expected_here())),
            type="string",
            title="Expected to be unavailable",
            pattern=f"^ *(({_EXPECTABLE})( *, *({_EXPECTABLE}))*)? *$",
            description="Capabilities, kinds or names, separated by commas, of scenarios that this host may be unable "
            "to "
            "run, e.g. power,network. One that is unavailable and not named here turns the run red.",
        ),
        **_of_clusters(),
    }


def _of_clusters() -> dict[str, Param]:
    """Returns the fields that name a cluster that somebody else runs, and what breaks it."""
    return {
        "cluster": Param(
            choices.check_cluster(CLUSTER, os.environ.get(CLUSTER, "")),
            type="string",
            title=FIELDS["cluster"].title,
            examples=list(choices.clusters()),
            pattern=rf"^({external_cluster.PATTERN})?$",
            description="Empty: each scenario starts a cluster of its own. Else the name of a cluster, as in the form "
            "of Verify delivery. What cannot be run there is unavailable, as expected.",
        ),
        "commands": Param(
            "",
            type="string",
            title=FIELDS["commands"].title,
            examples=list(choices.commands()),
            pattern=rf"^({operator_commands.PATTERN})?$",
            description=FIELDS["commands"].description,
        ),
        "beside": Param(
            "",
            type="string",
            title=FIELDS["beside"].title,
            format="multiline",
            description=FIELDS["beside"].description,
        ),
    }

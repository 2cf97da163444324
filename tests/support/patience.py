"""How long tests wait for an event that must come, and how often they look whether it has come."""

from __future__ import annotations

PATIENCE_S = 300.0
"""How long a test waits at most for an event that must come, in seconds.

Other guests may take the processors of a host. The host then stalls for a minute or more. So this limit is no claim
about speed. A test that makes such a claim names its own limit.
"""
LOOK_EVERY_S = 0.5
"""How often a test asks Airflow, or searches all processes of the host, in seconds.

Each look costs processor time, in Airflow, too. With the default of `wait_until`, 20 looks a second, a waiting test
would take this time from the run that it waits for.
"""

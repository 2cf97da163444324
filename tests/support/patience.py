"""How long tests wait for an event that must come, and how long they pause between two looks."""

from __future__ import annotations

PATIENCE_S = 300.0
"""How long a test waits at most for an event that must come, in seconds.

Other guests may take the processors of a host. The host then stalls for a minute or more. So this limit is no claim
about speed. A test that makes such a claim names its own limit.
"""
LOOK_EVERY_S = 0.5
"""Seconds between two looks of a test that asks Airflow, or that searches all processes of the host.

Each look costs processor time, in Airflow, too. With the short pause that `wait_until` makes by default, a waiting test
would take much of this time from the run that it waits for.
"""

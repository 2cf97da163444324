"""How long tests wait for an event that must come."""

from __future__ import annotations

PATIENCE_S = 300.0
"""How long a test waits at most for an event that must come, in seconds.

Other guests may take the processors of a host. The host then stalls for a minute or more. So this limit is no claim
about speed. A test that makes such a claim names its own limit.
"""

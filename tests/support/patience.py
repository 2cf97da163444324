"""How long tests wait for what must come."""

from __future__ import annotations

PATIENCE_S = 300.0
"""The longest that a test waits for what must come, in seconds.

A host whose processors other guests take stalls for a minute and more. So this is no claim about speed: a test that
makes such a claim names its own limit.
"""

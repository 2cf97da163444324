"""Verifies what Kafka's delivery settings really promise: load, faults, reconciliation, verdict."""

__version__ = "0.1.0"

"""Faults: actions on targets, run by a plan, each with its own proof that it bit."""

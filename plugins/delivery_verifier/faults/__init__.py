"""Faults: actions on targets, run by a plan, each with its own proof that it bit.

Owns how an action is done, healed and proven, and the injections that come of it. May use `load`, `cluster`, `host` and
`model`. What an action is, in words and data, belongs to `model.fault_actions`.
Known weakness: between the last look at a proof and the healing itself there is a moment in which nobody looks.
"""

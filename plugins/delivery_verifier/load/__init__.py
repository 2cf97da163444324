"""The sequenced load.

Owns: producers as child processes, the live ledger that survives their death, and the handle through which other
    processes see and steer a running load. There is no consumer under test yet: its room will stand beside this.
May use: store, host, model.
Weak spot: the counts that a producer keeps are compared with its ledger in attempts, not in outcomes.
"""

"""The sequenced load.

Owns: producers as child processes, the live ledger that survives their death, and the handle by which other processes
    see and steer a running load.
May use: store, host, model.
Weak spot: what a producer counted itself is held against its ledger in number of attempts, not in outcomes.
"""

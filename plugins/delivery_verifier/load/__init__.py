"""The sequenced load: producers send records that carry consecutive sequence numbers.

Owns: producers as child processes, the live ledger, which survives the death of a producer, and the handle through
    which other processes observe and steer a running load.
There is no consumer under test yet; it will get a room of its own beside this room.
May use: store, host, model.
Weak spot: the counts that a producer keeps and its ledger are compared only by their numbers of attempts. The outcomes
    are not compared.
"""

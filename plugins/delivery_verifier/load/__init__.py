"""The sequenced load: producers send records that carry consecutive sequence numbers.

Here the way of a record begins. `spark_jobs` reads the record back from the topic, and `judgement` ends the way.

Owns: producers as child processes, the live ledger, which survives the death of a producer, and the handle through
    which other processes observe and steer a running load. Consumers under test are in the room `applications`.
May use: store, host, model.
Weak spot: each producer counts the reports of each outcome, and a law compares these counts with the sealed ledger. If
    two attempts exchange their outcomes, no count shows that.
"""

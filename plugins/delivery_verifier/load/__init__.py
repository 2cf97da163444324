"""The sequenced load: producers send records that carry consecutive sequence numbers.

Owns: producers as child processes, the live ledger, which survives the death of a producer, and the handle through
    which other processes observe and steer a running load. The folder `java` has the Java client, a JVM below the
    producer process. Consumers under test are in the room `applications`.
May use: run_directory, host, model.
Weak spot: each producer counts the reports of each outcome, and an invariant compares these counts with the sealed
    ledger. If two attempts exchange their outcomes, the counts stay the same, so the invariant does not notice the
    exchange.
"""

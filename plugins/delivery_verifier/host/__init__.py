"""The host: what this machine offers to all other packages.

Owns: identities of processes, child processes that die with their parent, all waiting for a condition, the paths of
    folders, the environment variables KDV_*, the Java runtime, and the jars of Kafka and of Spark's Kafka connector.
May use: model.inputs, model.errors.
Weak spot: only Linux is supported: process states come from /proc, and children are tied to parents by prctl(2).
"""

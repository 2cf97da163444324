"""Planning: turns the fields of a run into a checked scenario. A user fills in the fields in a form or on a command
line.

Owns: the fields of a run, the translation of settings of the user's own, the checks of the host before a run, and the
    texts that explain what a run would do and what settings promise.
May use: contract, catalogue, load.layout, cluster, host, model.
Weak spot: settings of a Java client are translated for librdkafka, also for an arm with the Java client, whose load
    translates them back.
"""

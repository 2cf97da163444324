"""From a question to a checked scenario.

Owns: the fields of a run, settings of the user's own, what the host must have, what a run would do.
May use: contract, catalogue, load.layout, cluster, host, model.
Weak spot: settings of a Java client are translated for librdkafka, which behaves differently in places.
"""

"""The cluster under test: this package starts the cluster, watches it, and sends requests to it.

Owns: brokers and their keeper, the lease, the observer, topics, raw requests of Kafka's protocol, the proxy.
May use: store, host, model.
Weak spot: the observer polls. Two changes between two polls, which are 0.1 s apart, look like one change.
"""

"""The cluster under test: this package starts the cluster, watches it, and sends requests to it.

Owns: brokers and their keeper (the process that starts and ends them), the lease (one run per host), the observer,
    topics, raw requests of Kafka's protocol, the proxy.
May use: store, host, model.
Weak spot: the observer asks one broker after the other. A broker that does not answer delays the questions to the next
    brokers.
"""

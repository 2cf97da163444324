"""The cluster under test: this package starts the cluster, watches it, and sends requests to it.

Owns: brokers and their keeper (the parent process of the brokers), the lease (the time after which the keeper ends the
    cluster unless a step of the run renews the lease), the host's lock, the observer (a record of the changes in the
    cluster), topics, raw requests of Kafka's protocol, the proxy between producers and brokers.
May use: store, host, model.
Weak spot: the observer asks one broker after the other. A broker that does not answer delays the questions to the next
    brokers.
"""

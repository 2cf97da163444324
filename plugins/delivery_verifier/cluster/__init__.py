"""The cluster under test.

Owns: brokers and their keeper, the lease, the observer, topics, Kafka's protocol spoken raw, the proxy.
May use: store, host, model.
Weak spot: the observer asks the brokers one after another, so that a broker without an answer delays all others.
"""

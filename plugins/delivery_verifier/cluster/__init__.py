"""The cluster under test: this package starts the cluster, watches it, and sends requests to it.

Owns: brokers and their keeper, the lease, the host's lock, the observer, topics, raw requests of Kafka's protocol, the
    proxy between producers and brokers. The keeper is a process that outlives the steps of a run. It ends the cluster
    when the lease runs out, so the steps renew the lease. The host's lock lets only one run at a time have a cluster
    on this host. The observer records the changes in the cluster. A workspace is the folder of one cluster.
    The embedded backend runs the brokers as processes. In the docker backend, they run in containers of Docker Compose
    (the composed cluster). There only a small service, the fault door (the door for short), may change the containers.
    Some faults need a capability of the cluster: the proxy, `network` (brokers can be cut off), or `power` (the power
    of a broker's disk can be cut).
May use: store, host, model.
Weak spot: the observer polls. Two changes between two polls, which are 0.1 s apart, look like one change.
"""

"""The cluster under test: this package starts the cluster, watches the cluster, and sends requests to it.

Terms that the docstrings of this package use:

* The *cluster agent* is a process that outlives the steps of a run. The steps renew a *lease*. When the lease runs out,
  the cluster agent ends the cluster.
* The *host's lock* lets only one run at a time have a cluster on this host.
* The *observer* records the changes in the cluster.
* A *workspace* is the folder with the data of one cluster.
* The *embedded backend* runs the brokers as processes of this host. The *docker backend* uses the *composed cluster*,
  whose brokers run in containers of Docker Compose.
* The *fault gateway*, or the gateway for short, is a small service in the composed cluster. No other service may change
  the containers.
* A *means* is what a fault is done by, e.g. signals, or rules of a packet filter.
* A *capability* of a cluster is something that some faults need. `proxy`: a proxy stands between the producers and the
  brokers. `network`: brokers can be cut off. `power`: the power of a broker's disk can be cut.
* The *cluster check* finds out, without a trace, whether a cluster that somebody else runs has what a run needs.

Owns: brokers and their cluster agent, the lease, the host's lock, the observer, topics, raw requests of Kafka's
    protocol, the proxy between producers and brokers, connections with their security, the cluster check.
May use: run_directory, host, model.
Weak spot: the observer polls. Two changes between two polls, which are 0.1 s apart, look like one change.
"""

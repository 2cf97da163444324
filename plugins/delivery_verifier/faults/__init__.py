"""What is done to a cluster, and the proof that it bit.

Owns: the actions of a fault plan, their targets, their proofs, and the runner that takes them in order.
May use: load, cluster, host, model.
Weak spot: the controller is no target: there is one, and its end is the cluster's.
"""

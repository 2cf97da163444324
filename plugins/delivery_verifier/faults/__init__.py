"""Injects faults into a cluster, and proves that the faults bit.

Owns: the actions of a fault plan, their targets, their proofs, and the runner of the plan.
May use: load, cluster, host, model.
Weak spot: the controller cannot be a target: there is only one controller, and the cluster ends with it.
"""

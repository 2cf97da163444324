"""Injects faults into a cluster, and proves that each fault took effect.

The description of a new fault goes into `model/fault_actions.py`. Its code goes into this room (package).

Owns: the code of the actions of a fault plan, their targets, their proofs, and the runner of the plan.
May use: load, applications, cluster, contract, host, model.
Weak spot: no fault can be done to Kafka's controller. The cluster has only one controller, and cannot elect leaders
    without it.
"""

"""What is done to a cluster, and the proof that it bit.

Owns: the actions of a fault plan, their targets, their proofs, and the runner of the plan.
May use: load, cluster, host, model.
Weak spot: the controller is no target: there is only one, and the cluster ends with it.
"""

"""The contract: what delivery settings promise, given the disturbances that happened.

Owns: the rules with their sources, the rulings (whether an anomaly is forbidden or permitted, and by which rule), the
    disturbances, the order of settings by strength, and the forecast of the disturbances that a fault plan causes.
May use: model.
Weak spot: a ruling that permits an anomaly permits it for the whole run and topic. A case is one occurrence of an
    anomaly. A case on a partition or at a time that the disturbance did not reach is a doubt, not a violation.
"""

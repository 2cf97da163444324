"""The contract: what delivery settings promise, given the disturbances that happened.

Owns: the rules with their sources, the rulings, the disturbances, the order of settings by strength, and the forecast
    of the disturbances that a fault plan causes.
May use: model.
Weak spot: a ruling that permits an anomaly does so for the whole run and topic, however far a case is from the
    disturbance. A case (a record that shows the anomaly) on a partition or at a time that the disturbance did not reach
    is a doubt, not a conviction.
"""

"""The contract: what delivery settings promise, given the disturbances that happened.

The contract is computed from data alone: it needs no files, no Kafka and no Spark. A new rule goes into `rules`.

Owns: the rules with their sources, the rulings (whether an anomaly is forbidden or permitted, and by which rule), the
    disturbances, the order of settings by strength, and the forecast of the disturbances that a fault plan causes.
May use: model.
Weak spot: a ruling that permits an anomaly permits it for the whole run and topic. If a record shows the anomaly on a
    partition or at a time that the disturbance did not reach, this raises a doubt, but is no violation.
"""

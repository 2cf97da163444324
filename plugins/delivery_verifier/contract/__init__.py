"""The contract: what delivery settings promise, given the disturbances that happened.

The contract is computed from data alone: it needs no files, no Kafka and no Spark. A new rule goes into `rules`.

Owns: the rules with their sources, the rulings (whether an anomaly is forbidden or permitted, and by which rule), the
    disturbances, the order of settings by strength, and the forecast of the disturbances that a fault plan causes.
May use: model.
Weak spot: a permission ends when the deposed leader is seen to have learned of its successor, or to have exited. If it
    stays in the ISR all the time, as in an election that harms no broker, this is never seen: the permission of its
    partition then lasts until the end of the run.
"""

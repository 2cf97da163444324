"""The contract: what delivery settings promise, given the disturbances that happened.

The contract is computed from data alone: it needs no files, no Kafka and no Spark. A new rule goes into `rules`.

Owns: the rules with their sources, the rulings (whether an anomaly is forbidden or permitted, and by which rule), the
    disturbances and the effect window of each (the time in which it can hurt records), the order of settings by
    strength, and the forecast of the disturbances that a fault plan causes.
May use: model.
Weak spot: after a change of leader, losses are explained until the observer sees that the deposed leader has exited or
    follows its successor. If a deposed leader never leaves the ISR, the observer sees neither. The change of leader
    then explains losses in the partition until the end of the run.
"""

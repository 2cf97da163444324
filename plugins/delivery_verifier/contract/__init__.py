"""The contract: what delivery settings promise, given the disturbances that happened.

The contract is computed from data alone: it needs no files, no Kafka and no Spark. A new rule goes into `rules`.

Owns: the rules with their sources, the rulings (whether an anomaly is forbidden or permitted, and by which rule), the
    disturbances and the reach of each (the time in which it can hurt records), the order of settings by strength, and
    the forecast of the disturbances that a fault plan causes.
May use: model.
Weak spot: a change of leader excuses losses until the observer sees that the deposed leader has exited, or has learned
    of its successor. If the deposed leader stays in the ISR all the time, as in an election that harms no broker, the
    observer never sees this. The change then excuses losses in its partition until the end of the run.
"""

"""What the end of a load leaves on brokers and disks: read, proven complete, and written to the run directory.

The step `settle` calls most of this room, and the step `produce` calls `sealing`.

Owns: the snapshot (the range of offsets that is judged), the sealed ledgers, the end of the applications and their
    effects, the reading of every replica, the offsets that cannot be read, what the brokers keep of groups and output
    topics, and the writing of the canary.
May use: canary, applications, load, cluster, run_directory, host, model.
Weak spot: all of it needs the brokers as the load left them. Nothing here can be repeated once the cluster has ended.
"""

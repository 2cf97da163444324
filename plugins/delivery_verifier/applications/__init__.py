"""What stands behind the topic and is under test: the members of an application, and the effects that they leave.

A member is a process that consumes the topic of an arm and applies its records. Here, to apply a record is to fill a
slot of a mapped file, which survives the death of the process.

Owns: the slots, and sealing them as the table effects/.
May use: store, host, model.
Weak spot: a slot stands for an effect. An application that writes elsewhere may lose what it wrote, and slots do not.
"""

"""Own applications: their processes, their output, and the effects in lines and files that they write.

An *own application* is a program of the user's own. An *own member* is a member of it: one process with its children.
"""

"""Own applications: their processes, their output, and the effects that they write to lines, files, topics or tables.

An *own application* is a program of the user's own. An *own member* is a member of an own application: one process with
its child processes.
"""

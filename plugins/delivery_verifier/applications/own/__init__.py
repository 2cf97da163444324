"""User applications: their processes, their output, and the effects that they write to lines, files, topics or tables.

A *user application* is a program of the user's own. An *own member* is a member of a user application: one process
with its child processes.
"""

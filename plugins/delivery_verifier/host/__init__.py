"""What this machine offers: processes, waiting, folders, variables, Java.

Owns: child processes that die with their parent, the only waiting there is, folders, environment variables, the
    Java runtime and the jars.
May use: model.inputs, model.errors.
Weak spot: it knows Linux alone: process states come from /proc, and children are tied to parents by prctl.
"""

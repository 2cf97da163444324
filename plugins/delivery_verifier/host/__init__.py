"""The host: what this machine offers to all other packages.

Owns: identities of processes, `supervision` (child processes, all that stands below them, and the memory through which
    they are observed and steered), functions that wait for a condition, the paths of folders, environment variables,
    free ports, HTTP clients, the Java runtime and the jars, other versions of librdkafka.
May use: model.inputs, model.errors.
Weak spot: only Linux is supported, because process states come from /proc, and prctl ties children to their parents.
"""

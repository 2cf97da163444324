"""The run directory: the sealed output of each step, tables, books (the counts of each arm), catalogue runs.

Owns: every file below `runs/`. A finished step seals its files: it lists their checksums in a file called manifest. A
    verdict is never based on files with other checksums.
May use: host, model.
Weak spot: manifests hold checksums, not signatures. A person who computes all of them anew, or makes all of them look
    like version 1 of the format, which names neither run nor other manifests, can pass off altered files.
"""

"""The run directory: the sealed output of each step, tables, counts (the counts of each arm), catalogue runs.

Owns: every file below `runs/`. A finished step seals its files: it lists their checksums in a file called manifest. A
    verdict is never based on a file whose checksum differs from the manifest.
May use: host, model.
Weak spot: manifests hold checksums, not summary rows. A person can pass off altered files by computing all checksums
    anew.
"""

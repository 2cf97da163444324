"""The run directory: the sealed output of each step, tables, books (the counts of each arm), catalogue runs.

Owns: every file below `runs/`. A finished step seals its files: it lists their checksums in a file called manifest. A
    verdict is never based on files with other checksums.
May use: host, model.
Weak spot: a manifest names neither its run nor the manifests that its step required. So files of another run with the
    same arms would pass as files of this run.
"""

"""The store: run directories with the output of each step, and the records of catalogue runs.

A step seals its output: its manifest names each file with the file's SHA-256. The *books* are small tables of exact
counts, by which a run is judged.

Owns: every file below `runs/`, how it is sealed, and how it is checked when it is read back.
May use: host, model.
Weak spot: a manifest names neither its run nor the manifests that its step required. So files of another run with the
    same arms would pass as files of this run.
"""

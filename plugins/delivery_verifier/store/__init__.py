"""The run directory: sealed steps, tables, books, catalogue runs.

Owns: every file below `runs/`, how it is sealed, and how it is read back strictly.
May use: host, model.
Weak spot: a manifest names neither its run nor the manifests that its step required. So files of another run with the
    same arms would pass as files of this run.
"""

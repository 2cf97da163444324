"""The commands of kdv, one module per group; each takes parsed arguments and returns its exit code."""

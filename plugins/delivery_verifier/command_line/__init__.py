"""The command line: `kdv` and its commands. It parses, calls the other rooms, prints, and chooses the exit code.

Uses every room below it. Known weakness: modules import heavy rooms inside functions, so that `kdv --help` is fast.
"""

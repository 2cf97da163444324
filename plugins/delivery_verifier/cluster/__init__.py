"""The cluster under test: its jars, its processes, the keeper that owns them, and what can be asked of it."""

"""The cluster under test: backends that run it, the handle that steps and faults use, and the lease that keeps it."""

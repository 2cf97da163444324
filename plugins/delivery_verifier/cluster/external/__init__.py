"""The backend for a cluster that somebody else runs: only what is the run's own is created and removed."""

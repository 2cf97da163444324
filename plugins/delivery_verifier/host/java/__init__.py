"""Java: the runtime, the jars that a lock file pins by checksum, and the archives of loaded classes."""

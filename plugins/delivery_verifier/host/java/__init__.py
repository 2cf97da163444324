"""Java: the runtime, the jars by lock file and checksum, the archives of loaded classes."""

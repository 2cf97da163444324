"""Java: the runtime, the jars, and the class data archives.

A lock file pins each jar by its checksum. A class data archive is a file with classes that a JVM has loaded and
verified once. Later JVMs map this file, and therefore start faster.
"""

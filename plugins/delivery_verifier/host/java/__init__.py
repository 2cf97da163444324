"""Java: the runtime, the jars, the class data archives, the JVM of a client, and how its classes are compiled.

A lock file pins each jar by its checksum. A class data archive is a file with classes that a JVM has loaded and
verified once. Later JVMs map this file, and therefore start faster.
"""

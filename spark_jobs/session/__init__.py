"""The Spark session: of a JVM on this host (`classic`) or of a Spark Connect server (`connect`), and its progress.

Owns: the settings of Spark, the start and the end of a session and its JVM, and the watch over Spark's progress.
May use: no other folder.
Weak spot: the end of a JVM is recognised by its process, which PySpark keeps in a private attribute.
"""

"""The Java client as the client of a producer: a JVM that is the child of the producer process.

`LoadClient.java` is the program of the JVM. Its classes are compiled when the project is built (see
`host.java.build`), so that a user needs no compiler. It stores outcomes into the live ledger itself, so they survive
the SIGKILL of both processes.
"""

"""The Java client as the client of a member: a JVM that is the child of the member process.

`MemberClient.java` is the program of the JVM. Its classes are compiled when the project is built (see
`host.java.build`). Disciplines, batches, crash points and the journal stay in the member process.
"""

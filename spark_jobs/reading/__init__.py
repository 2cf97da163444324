"""Reading: the records of the topics, from Kafka to log/.

Owns: the requests to Kafka, the parsing of a record's header, the rows of unreadable offsets, and the manifest of log/.
May use: literals, schemas.
Weak spot: a damaged header may name another attempt, and only the checksum tells that it is damaged.
"""

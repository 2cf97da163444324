"""librdkafka in other versions than the installed one: a folder for each, and the check of which one a process has.

A lock file pins the wheels of confluent-kafka, which has librdkafka in it, by their checksums.
"""

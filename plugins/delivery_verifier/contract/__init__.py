"""Contract: from settings and observed disturbances to what is forbidden and permitted, by rules with sources.

Uses model only. Knows nothing of Kafka clients, Spark or Great Expectations.
Known weakness: it speaks of an arm as a whole, not of single partitions or moments.
"""

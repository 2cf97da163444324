"""The causes: what a program of the user's own did, where the commits of its group and the kills of the plan show it.

The settings of such a program are unknown. So a case of SKIPPED is forbidden, whoever did it. The brokers wrote down
which offsets the program committed, and Kafka did what it was told. Where this evidence shows that the program did it,
nobody else is to blame. Causes explain cases, and never decide whether a record is one. All functions are pure.
"""

from delivery_verifier.verdict.causes.cases import cause_of, cause_of_case, causes, causes_of, group_of

__all__ = ["cause_of", "cause_of_case", "causes", "causes_of", "group_of"]

"""Effects: what the applications made of the records, compared with the log.

Owns: the anomalies of effects, the screen that finds which effects need no matching, and the counts of effects.
May use: matching, reading, schemas.
Weak spot: the screen leaves out arms that write transactions, because the screen of the log counts the raw view only.
"""

"""Matching: ledger and log, compared. The results are the anomalies of the log and its counts.

Owns: census, buckets and screen, which find what needs no matching; the attempts and cases of the rest; the counts.
May use: reading, literals, schemas.
Weak spot: a kind of anomaly that the screen lets pass would not be found. A run that matches every record shows it.
"""

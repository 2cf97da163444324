"""Judgement: from the evidence of a finished run to doubts, a verdict, and its sentences; and the canary.

Uses contract, store and model. `judge` is a pure function: it reads no file and decides by no clock.
Known weakness: a disturbance of one partition permits its anomaly for the arm as a whole; cases on other partitions
are only a doubt.
"""

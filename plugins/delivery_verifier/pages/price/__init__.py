"""The price of each profile: what its guarantee costs and what it gives, as measured in runs.

A profile is one set of client and topic settings.
"""

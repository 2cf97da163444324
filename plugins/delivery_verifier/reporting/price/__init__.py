"""The price of each profile: what the guarantee of the profile costs and what it gives, as measured in runs.

A profile is one set of client and topic settings.
"""

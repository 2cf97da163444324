"""Settings of the user's own, which replace or change a profile of the catalogue. The settings come from files or
overrides.

Tables translate the properties name by name. A name that is in no table is refused, never guessed.
"""

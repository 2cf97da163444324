"""Settings of the user's own: properties from the user's files or overrides, instead of a profile of the catalogue.

Tables translate the properties name by name. A name that is in no table is refused, never guessed.
"""

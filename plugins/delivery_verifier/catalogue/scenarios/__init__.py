"""The scenarios of the catalogue, one module for each kind of promise."""

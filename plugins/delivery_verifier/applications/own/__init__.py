"""Applications of the user's own: their processes, their output, and the effects in lines and files that they write."""

"""The matrix: the results of a catalogue run as tables, as an HTML page, and as Markdown.

A catalogue run executes many entries of the catalogue, in one or more rounds. A round runs each chosen entry once.
"""

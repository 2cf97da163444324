"""The matrix: the results of a catalogue run as tables, as an HTML page, and as Markdown."""

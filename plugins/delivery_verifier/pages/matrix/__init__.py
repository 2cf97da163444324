"""The matrix: a catalogue run as tables, as a page, and as Markdown."""

"""Matrix: a catalogue run as tables of scenarios and profiles, as an HTML page and as Markdown."""

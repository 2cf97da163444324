"""The report of one run: one offline page, section by section."""

"""The report of one run: one HTML page that loads nothing from elsewhere. The modules prepare its sections."""

"""The comparison: two runs side by side."""

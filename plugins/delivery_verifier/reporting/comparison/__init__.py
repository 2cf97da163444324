"""The comparison: the figures of two runs side by side, as a page and as text."""

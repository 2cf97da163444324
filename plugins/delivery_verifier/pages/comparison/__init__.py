"""Comparison: two runs side by side (`kdv compare`)."""

"""The charts of a report: load, errors, latency, faults and leaders over one axis."""

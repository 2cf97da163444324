"""The charts of a report: load, errors, latency, faults and leaders over time, and the distribution of latencies."""

"""What is shown of sentinels: the result of a run, its gauges for Prometheus, and the page with the history."""

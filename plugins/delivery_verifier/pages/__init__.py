"""The report: what verdict.json and the run's tables say, for people. It decides nothing."""

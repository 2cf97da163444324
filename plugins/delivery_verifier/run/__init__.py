"""One run: its steps, their order in one process, and the signals between steps that run side by side."""

"""Data Docs that need no network: views and renderers that Great Expectations loads by name (see `validation`)."""

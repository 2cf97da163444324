"""Data Docs that need no network: the views and renderers that Great Expectations loads by name (see `validation`)."""

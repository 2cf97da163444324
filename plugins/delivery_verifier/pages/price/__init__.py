"""Price."""

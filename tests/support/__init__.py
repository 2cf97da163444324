"""Helpers that several tests share. The name of a module says what the module provides."""

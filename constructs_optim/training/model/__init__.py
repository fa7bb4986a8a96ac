"""Loads, writes and identifies the model and its heads, in servers' formats."""

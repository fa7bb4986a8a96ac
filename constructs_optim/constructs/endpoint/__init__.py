"""The endpoint: its configuration, its updates, and who may invoke it."""

"""Operates jobs, artifacts, and endpoints through the records of the runtime's handlers, and returns data."""

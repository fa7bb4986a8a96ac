"""Operates jobs, artifacts and endpoints, by the records that the runtime's handlers keep; the results are data."""

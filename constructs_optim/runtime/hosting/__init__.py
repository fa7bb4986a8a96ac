"""Endpoints as they serve, and their scaling as it is registered."""

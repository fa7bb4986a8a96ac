"""Validation at synthesis: template size, and policy findings."""

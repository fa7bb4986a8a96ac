"""Validation at synthesis: templates that are too large, and findings of policies."""

"""Measures what an endpoint does: sends prompts at chosen concurrencies, takes times, and reports metrics.

It runs on a laptop and in a container alike. What metrics mean and how they come of requests is
``recipe.evaluation``'s.
"""

"""Measures an endpoint: sends prompts at several concurrencies, measures times, and reports metrics.

It runs on a laptop or in a container. ``recipe.evaluation`` defines the metrics. ``connection`` and
``streaming`` take the times, ``load`` sends and records, ``evaluation`` runs the sides that ``sides`` prepares,
``run_directory`` stores the measurements and ``report`` presents them.
"""

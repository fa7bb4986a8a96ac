"""Measures an endpoint: sends prompts at chosen concurrencies, takes times, and reports metrics.

It runs on a laptop and in a container alike. The metrics, and how they follow from requests, are defined in
``recipe.evaluation``. ``connection`` and ``streaming`` are what is timed, ``load`` sends and records, ``evaluation``
runs the sides that ``sides`` prepares, ``run_directory`` keeps and ``report`` shows what was measured.
"""

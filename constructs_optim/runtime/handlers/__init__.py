"""The Lambda functions' entry points: one module a function, each with ``handler(event, context)``."""

import gc

# Imports allocate much and free little: collecting garbage meanwhile takes a tenth of a cold start.
gc.set_threshold(100_000)

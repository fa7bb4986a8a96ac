"""The Lambda functions' entry points: one module a function, each with ``handler(event, context)``."""

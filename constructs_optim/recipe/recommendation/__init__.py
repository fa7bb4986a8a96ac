"""Which recipes to try for a model, best first."""

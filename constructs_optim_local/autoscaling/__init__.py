"""Application Auto Scaling: registered targets, and an engine that scales them."""

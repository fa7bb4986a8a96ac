"""Application Auto Scaling: what is registered, and an engine that scales it."""

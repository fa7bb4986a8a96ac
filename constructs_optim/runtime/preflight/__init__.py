"""Preflight: what would fail hours into a deployment, asked before anything is started."""

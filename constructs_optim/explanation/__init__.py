"""Explains the effects of deploying a synthesized app, by its templates and without a cloud."""

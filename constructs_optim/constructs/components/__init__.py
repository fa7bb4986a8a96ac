"""Inference components: models that share the instances of an endpoint."""

"""Models, endpoints and inference components: their deployments, instances and invocations."""

"""From a recipe to a SageMaker model: the artifact store, its jobs and artifacts, and their models."""

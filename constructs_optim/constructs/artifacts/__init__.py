"""From a recipe to a SageMaker model: the artifact store, the jobs that fill it, and the models that use it."""

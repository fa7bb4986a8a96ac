"""From a recipe to a SageMaker model: the artifact store, the jobs that make artifacts, and the models made of them."""

"""From a recipe to a plan: the container, the jobs, the artifact's key, and whether the model fits the accelerators."""

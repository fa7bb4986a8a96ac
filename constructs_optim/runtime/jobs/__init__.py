"""SageMaker jobs: their sources and requests, and how they are started, watched, and stopped."""

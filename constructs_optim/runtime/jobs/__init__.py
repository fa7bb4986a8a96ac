"""SageMaker jobs: their sources and requests, how they are started, watched and stopped."""

"""SageMaker jobs: what they read, how they are started, watched and stopped."""

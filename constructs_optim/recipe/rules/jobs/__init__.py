"""Rules about what SageMaker is asked to measure: benchmarks and recommendations."""

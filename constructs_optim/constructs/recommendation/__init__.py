"""SageMaker's recommendation jobs as resources."""

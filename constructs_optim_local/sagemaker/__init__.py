"""The parts of Amazon SageMaker that deployments of optimized endpoints call.

moto has Model, EndpointConfig and Endpoint, but drops members that matter here (EnableNetworkIsolation, MetricsConfig,
DeploymentConfig), has no instance type later than 2021 and simulates no lifecycle. This package replaces them.
"""

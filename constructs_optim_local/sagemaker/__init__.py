"""Amazon SageMaker's control plane, as much of it as deployments of this kind call.

moto has Model, EndpointConfig and Endpoint, but drops members that matter here (EnableNetworkIsolation, MetricsConfig,
DeploymentConfig), knows no instance type later than 2021 and leaves out every lifecycle; so they are written anew.
"""

"""The Lambda functions, in this process, against the local cloud."""

from ..support.local_cloud_fixtures import cloud, no_faults, responses, sagemaker

__all__ = ["cloud", "no_faults", "responses", "sagemaker"]

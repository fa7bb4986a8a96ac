"""The Lambda functions, in this process, against the local cloud."""

from typing import Any

import pytest

from ..support import evaluations, inference_components
from ..support.local_cloud_fixtures import cloud, no_faults, responses, sagemaker

__all__ = ["cloud", "no_faults", "responses", "sagemaker"]


@pytest.fixture(scope="session")
def evaluated_endpoint(sagemaker: Any) -> None:
    """The endpoint of all evaluations."""
    evaluations.evaluated_endpoint(sagemaker)


@pytest.fixture(scope="session")
def partitioned_endpoints(sagemaker: Any) -> None:
    """Two endpoints whose GPUs are partitioned, and a model."""
    inference_components.partitioned_endpoints(sagemaker)

"""Endpoints for benchmark jobs to measure."""

from __future__ import annotations

from typing import Any

from .hosting import IMAGE, make_config, settled
from .local_cloud import ROLE


def serve(sagemaker: Any, name: str, **container: Any) -> str:
    """An endpoint in service; its name."""
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE, **container})
    make_config(sagemaker, name, name)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert settled(sagemaker, name)["EndpointStatus"] == "InService"
    return name

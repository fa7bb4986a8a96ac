"""Stand-ins for the documents of JumpStart models that are known by name, version and place: ``data/hub_models.json``.

What AWS's own documents say besides is not known: images, inference configurations and drafts are made up.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent.parent / "data" / "hub_models.json"
_REGISTRY = "763104351884.dkr.ecr.{}.amazonaws.com"
_IMAGE = f"{_REGISTRY}/huggingface-pytorch-tgi-inference:2.1.1-tgi1.4.2-gpu-py310-cu121-ubuntu22.04"
_OPTIMIZED_IMAGE = f"{_REGISTRY}/djl-inference:0.32.0-lmi14.0.0-cu126"
_CONFIGURATION = "lmi-optimized"


@functools.cache
def known_models() -> dict[str, dict[str, Any]]:
    """What is known of each model, by its id; ``tooling/hub_models.py`` writes it."""
    models: list[dict[str, Any]] = json.loads(_DATA.read_text(encoding="utf-8"))["models"]
    return {model["model_id"]: model for model in models}


def stand_in(model: dict[str, Any], region: str) -> str:
    """A document of a model, for a region."""
    bucket = f"jumpstart-{'private-' if model['gated'] else ''}cache-prod-{region}"
    drafts = [
        {
            "ChannelName": "draft_model",
            "Provider": {"Name": "SageMaker", "Classification": "non-gated"},
            "S3DataSource": {
                "S3Uri": f"s3://sagemaker-sd-models-prod-{region}/{model['model_id']}/",
                "S3DataType": "S3Prefix",
            },
        }
    ]
    document = {
        "Url": "https://docs.aws.amazon.com/sagemaker/latest/dg/jumpstart-foundation-models.html",
        "ResourceNameBase": model["model_id"],
        "HostingEcrUri": _IMAGE.format(region),
        "HostingArtifactS3DataType": "S3Prefix",
        "HostingArtifactCompressionType": "None",
        "HostingArtifactUri": f"s3://{bucket}/{model['artifact']}",
        "HostingPrepackedArtifactUri": f"s3://{bucket}/{model['artifact']}",
        "GatedBucket": model["gated"],
        "InferenceEnvironmentVariables": [
            {"name": name, "default": value, "scope": "container", "required_for_model_class": True}
            for name, value in model["environment"].items()
        ],
        "DefaultInferenceInstanceType": model["instance_type"],
        "SupportedInferenceInstanceTypes": [model["instance_type"]],
        "ModelDataDownloadTimeout": 1200,
        "ContainerStartupHealthCheckTimeout": 1200,
        "InferenceEnableNetworkIsolation": True,
        "InferenceConfigs": {_CONFIGURATION: {"ComponentNames": [_CONFIGURATION]}},
        "InferenceConfigComponents": {
            _CONFIGURATION: {
                "HostingEcrUri": _OPTIMIZED_IMAGE.format(region),
                "HostingInstanceTypeVariants": {"Variants": {}},
                **({"HostingAdditionalDataSources": {"speculative_decoding": drafts}} if model["draft"] else {}),
            }
        },
    }
    if model["eula"]:
        document["HostingEulaUri"] = f"s3://jumpstart-cache-prod-{region}/{model['eula']}"
    return json.dumps(document, indent=1)

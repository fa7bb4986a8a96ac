"""Documents of a hub's models that the local cloud does not bundle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from constructs_optim_local.sagemaker import hub as hub_module

DRAFT_FOLDER = "/opt/ml/additional-model-data-sources/draft_model"


def write_document(folder: Path, versions: Sequence[str]) -> None:
    """The bundled Llama's document with what newer ones have: a draft, and a configuration of its own."""
    (bundled,) = (Path(hub_module.__file__).parent.parent / "data" / "hub").glob(
        "meta-textgeneration-llama-2-70b/*.json"
    )
    document = json.loads(bundled.read_text())
    draft = {
        "ChannelName": "draft_model",
        "Provider": {"Name": "SageMaker", "Classification": "non-gated"},
        "S3DataSource": {"S3Uri": "s3://sagemaker-sd-models-prod-us-west-2/llama/", "S3DataType": "S3Prefix"},
    }
    document |= {
        "InferenceConfigs": {"lmi-optimized": {"ComponentNames": ["lmi-optimized"]}},
        "InferenceConfigComponents": {
            "lmi-optimized": {
                "HostingEcrUri": "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.32.0-lmi14.0.0-cu126",
                "HostingInstanceTypeVariants": {"Variants": {}},
                "InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-3-1",
                "HostingAdditionalDataSources": {"speculative_decoding": [draft]},
                "InferenceEnvironmentVariables": [
                    {"name": name, "default": value, "required_for_model_class": True}
                    for name, value in (
                        ("OPTION_ROLLING_BATCH", "auto"),
                        ("OPTION_SPECULATIVE_DRAFT_MODEL", DRAFT_FOLDER),
                    )
                ],
            }
        },
    }
    folder.mkdir()
    for version in versions:
        (folder / f"{version}.json").write_text(json.dumps(document))

"""Properties of custom resources as CloudFormation delivers them, and other JSON in their place."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st

from constructs_optim.recipe import FineTune, Medusa, Model, Recipe, TrainingCompute, plan
from constructs_optim.runtime.requests.properties import as_delivered

OPTIMIZATION: dict[str, Any] = {
    "RecipeKey": "b" * 64,
    "Source": {
        "Kind": "hub",
        "HubName": "SageMakerPublicHub",
        "ModelId": "some-model",
        "Version": "1.2.3",
        "AcceptEula": "true",
    },
    "Request": {
        "DeploymentInstanceType": "ml.g5.12xlarge",
        "OptimizationConfigs": [
            {
                "ModelQuantizationConfig": {
                    "Image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.32.0-lmi14.0.0-cu126",
                    "OverrideEnvironment": {"OPTION_QUANTIZE": "awq"},
                }
            }
        ],
        "StoppingCondition": {"MaxRuntimeInSeconds": "36000"},
    },
    "RoleArn": "arn:aws:iam::123456789012:role/Execution",
    "Bucket": "artifacts-of-the-team",
    "StateMachineArn": "arn:aws:states:us-west-2:123456789012:stateMachine:Watch",
    "WaitHandle": "https://cloudformation-waitcondition-us-west-2.s3.us-west-2.amazonaws.com/token",
}

MODEL: dict[str, Any] = {
    "Image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.32.0-lmi14.0.0-cu126",
    "Environment": {"OPTION_ROLLING_BATCH": "auto"},
    "InstanceType": "ml.g5.12xlarge",
    "Source": {"Kind": "artifact", "ArtifactKey": "a" * 64, "S3Uri": "s3://bucket/artifacts/", "Suffix": "draft/"},
    "Channels": [{"Name": "draft_model", "Source": {"Kind": "s3", "S3Uri": "s3://bucket/draft/"}}],
    "RoleArn": "arn:aws:iam::123456789012:role/Execution",
    "EnableNetworkIsolation": "true",
    "VpcConfig": {"SecurityGroupIds": ["sg-11111111"], "Subnets": ["subnet-11111111"]},
    "Tags": [{"Key": "team", "Value": "chat"}],
}
_TEXT = st.text(string.printable)
JSON = st.recursive(
    st.none() | st.booleans() | _TEXT | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in nested JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, item in items for inner in places(item, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The same JSON with another value at a path."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


# Close to what is right: words and signs that patterns are made of.
_PARTS = ("arn:aws:iam::123456789012:role/x", "s3://bucket/", "https://", "[", "\n", "\u0661", "..", "ml.a.b", "1")
NEAR = st.lists(st.sampled_from(_PARTS), max_size=3).map("".join)


def training_requests() -> list[dict[str, Any]]:
    """Requests of every shape that a plan has."""
    made: list[dict[str, Any]] = []
    for compute in (
        TrainingCompute(),
        TrainingCompute(spot=True, environment={"PIP_INDEX_URL": "https://pip.example/simple"}),
        TrainingCompute(instance_type="ml.p4d.24xlarge", instance_count=2, keep_alive_seconds=600),
    ):
        planned = plan(
            Recipe(
                model=Model.jumpstart("huggingface-llm-mistral-7b", version="2.0.0"),
                techniques=[
                    Medusa(
                        training_data="s3://data/train/",
                        validation_data="s3://data/validation/",
                        heads=4,
                        base=FineTune(training_data="s3://data/train/"),
                        compute=compute,
                    )
                ],
                instance_type="ml.g5.12xlarge",
                region="us-west-2",
            )
        )
        made += [job.request for job in planned.jobs]
    return made


def training_properties(**changed: Any) -> dict[str, Any]:
    return {
        **OPTIMIZATION,
        "JobKind": "TrainingJob",
        "ModelChannel": "model",
        "Reads": [{"Kind": "s3", "S3Uri": "s3://data/train/"}],
        "Request": as_delivered(training_requests()[0]),
        **changed,
    }

"""The names that the documents' snippets use without declaring them, as a reader's app would define them."""

from __future__ import annotations

from typing import Any

import aws_cdk
from aws_cdk import App, CfnOutput, Environment, Stack, aws_cloudwatch, aws_iam, aws_s3, aws_sns

import constructs_optim
from constructs_optim import (
    ArtifactStore,
    Model,
    OptimizationJob,
    OptimizedEndpoint,
    PlatformPolicy,
    Quantization,
    SpeculativeDecoding,
)
from tests.support.documents import Snippet

_LLAMA = "meta-textgeneration-llama-3-70b-instruct"
_EAGLE: dict[str, Any] = {
    "model": Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="2.6.0", accept_eula=True),
    "techniques": [SpeculativeDecoding.eagle()],
    "instance_type": "ml.g5.12xlarge",
}
_ENVIRONMENT = Environment(account="111122223333", region="us-west-2")


def names_of(snippet: Snippet) -> dict[str, Any]:
    """The names that a snippet uses; constructs are created only if the snippet uses them."""
    app = App()
    stack = Stack(app, "Snippets", env=_ENVIRONMENT)
    model = Model.jumpstart(_LLAMA, version="2.25.0", accept_eula=True)

    def endpoint(name: str, *techniques: Any) -> OptimizedEndpoint:
        return OptimizedEndpoint(
            stack,
            name,
            model=model,
            techniques=list(techniques or [Quantization.awq()]),
            instance_type="ml.g5.12xlarge",
        )

    factories = {
        "endpoint": lambda: endpoint("Endpoint"),
        "other": lambda: endpoint("Other", Quantization.awq(), SpeculativeDecoding.sagemaker_draft()),
        "search": lambda: endpoint("Search"),
        "chat": lambda: endpoint("Chat"),
        "alarm": lambda: aws_cloudwatch.Alarm.from_alarm_name(stack, "Alarm", "chat-errors"),
        "topic": lambda: aws_sns.Topic.from_topic_arn(stack, "Pages", "arn:aws:sns:us-west-2:111122223333:pages"),
        "role": lambda: aws_iam.Role.from_role_name(stack, "Role", "recommendations"),
        "bucket": lambda: aws_s3.Bucket.from_bucket_name(stack, "Bucket", "ml-artifacts"),
        "store": lambda: ArtifactStore(stack, "Store"),
        "shared": lambda: ArtifactStore.from_bucket(
            aws_s3.Bucket.from_bucket_name(stack, "Shared", "ml-artifacts"), read_only=True
        ),
        "job": lambda: OptimizationJob(stack, "Job", wait=False, **_EAGLE),
        "component": lambda: OptimizedEndpoint(stack, "Components", instance_type="ml.g5.12xlarge").add_component(
            "Component", model=model, techniques=[Quantization.awq()]
        ),
        "recipe": lambda: _EAGLE,
        "policy": lambda: PlatformPolicy(allowed_instance_types=["ml.g5.*", "ml.p5.48xlarge"]),
        "training": lambda: Stack(app, "Training", env=_ENVIRONMENT),
        "serving": lambda: Stack(app, "Serving", env=_ENVIRONMENT),
    }
    used = set(compile(snippet.code, str(snippet), "exec").co_names)
    return {
        "aws_cloudwatch": aws_cloudwatch,
        "cdk": aws_cdk,
        "CfnOutput": CfnOutput,
        **{name: getattr(constructs_optim, name) for name in constructs_optim.__all__},
        "app": app,
        "stack": stack,
        "model": model,
        **{name: make() for name, make in factories.items() if name in used and f"{name} = " not in snippet.code},
    }

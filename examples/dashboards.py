"""Two endpoints with dashboards that show prices and evaluations, a fleet dashboard, and a custom dashboard.

Run `cdk synth --app "python examples/dashboards.py"`, then `constructs-optim dashboard preview` to view them.
"""

import os
from typing import Any

from aws_cdk import App, Environment, Stack
from aws_cdk import aws_cloudwatch as cloudwatch

from constructs_optim import (
    ArtifactStore,
    EvaluatedModel,
    FleetDashboard,
    Model,
    OptimizedEndpoint,
    Quantization,
    SpeculativeDecoding,
)

# Your price per hour; it depends on Region and contract (https://aws.amazon.com/sagemaker/ai/pricing/).
PRICE_OF_G5_12XLARGE = 7.09

app = App()
stack = Stack(
    app,
    "Chat",
    env=Environment(
        account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
        region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
    ),
)
store = ArtifactStore(stack, "Artifacts")
model = Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True)


given: dict[str, Any] = {"model": model, "instance_type": "ml.g5.12xlarge", "artifact_store": store}
quantized = OptimizedEndpoint(stack, "Quantized", techniques=[Quantization.awq()], **given)
drafted = OptimizedEndpoint(
    stack, "Drafted", techniques=[Quantization.awq(), SpeculativeDecoding.sagemaker_draft()], **given
)

drafted.dashboard.show_costs(instance_price_per_hour=PRICE_OF_G5_12XLARGE)
# The published evaluations of baseline and optimized, side by side, for 1, 8 and 32 users.
drafted.dashboard.show_evaluation(
    concurrencies=[1, 8, 32],
    baseline=EvaluatedModel("quantized", quantized.served, PRICE_OF_G5_12XLARGE),
    label="with a draft",
)
# The pipeline passes this time, so that the same commit always produces the same template.
drafted.dashboard.add_deployment("2026-11-21T14:00:00Z", "release 42")

fleet = FleetDashboard(stack, "Fleet")
for one in (quantized, drafted):
    fleet.add_endpoint(one, label=one.node.id, instance_price_per_hour=PRICE_OF_G5_12XLARGE)

# Single widgets, in the team's own dashboard.
own = cloudwatch.Dashboard(stack, "Own")
own.add_widgets(
    quantized.dashboard.widgets["model_latency"].to_widget(), drafted.dashboard.widgets["errors"].to_widget()
)

app.synth()

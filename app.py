"""Llama 2 70B, quantized to INT4 with AWQ, on ml.g5.12xlarge: the demo, and a pattern to start from."""

import os

from aws_cdk import App, CfnOutput, Environment, Stack

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint, Quantization

app = App()
stack = Stack(
    app,
    "Chat",
    env=Environment(account=os.environ.get("CDK_DEFAULT_ACCOUNT"), region=os.environ.get("CDK_DEFAULT_REGION")),
)

store = ArtifactStore(stack, "Artifacts")
endpoint = OptimizedEndpoint(
    stack,
    "Llama70B",
    model=Model.jumpstart("meta-textgeneration-llama-2-70b", version="4.0.0", accept_eula=True),
    techniques=[Quantization.awq()],
    instance_type="ml.g5.12xlarge",
    artifact_store=store,
)
endpoint.auto_scale(min_capacity=1, max_capacity=4).on_concurrency(target=8)

CfnOutput(stack, "EndpointName", value=endpoint.endpoint_name)
CfnOutput(stack, "ArtifactKey", value=endpoint.artifact.artifact_key)
CfnOutput(stack, "ArtifactStoreBucket", value=store.bucket_name)
CfnOutput(stack, "DashboardName", value=endpoint.dashboard.dashboard_name)

app.synth()

"""Two techniques combined: quantized weights, and the draft model that SageMaker provides for them.

The job only quantizes. The draft model is not part of the artifact, so endpoints with and without it share one.
"""

import os

from aws_cdk import App, CfnOutput, Environment, Stack

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint, Quantization, SpeculativeDecoding

app = App()
env = Environment(
    account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
    region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
)
stack = Stack(app, "Drafted", env=env)
store = ArtifactStore(stack, "Artifacts")
model = Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True)
quantized = Quantization.awq()

plain = OptimizedEndpoint(
    stack, "Plain", model=model, techniques=[quantized], instance_type="ml.g5.12xlarge", artifact_store=store
)
drafted = OptimizedEndpoint(
    stack,
    "Drafted",
    model=model,
    techniques=[quantized, SpeculativeDecoding.sagemaker_draft(speculative_tokens=6)],
    instance_type="ml.g5.12xlarge",
    artifact_store=store,
)

CfnOutput(stack, "PlainEndpoint", value=plain.endpoint_name)
CfnOutput(stack, "DraftedEndpoint", value=drafted.endpoint_name)
app.synth()

"""The app of ``recorded/release-126e5eb.zip``, declared with this release."""

import os

from aws_cdk import App, CfnOutput, Environment, Stack
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint, Quantization, Workload

app = App()
stack = Stack(
    app,
    "Released",
    env=Environment(account=os.environ["CDK_DEFAULT_ACCOUNT"], region=os.environ["CDK_DEFAULT_REGION"]),
)
store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Artifacts", "released-artifacts"))
endpoint = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.jumpstart("meta-textgeneration-llama-2-70b", version="4.0.0", accept_eula=True),
    techniques=[Quantization.awq()],
    instance_type="ml.g5.12xlarge",
    artifact_store=store,
)
endpoint.auto_scale(max_capacity=4).on_concurrency(target=8)
endpoint.evaluate(workload=Workload(concurrency=[1, 4], input_tokens=128, output_tokens=64))
CfnOutput(stack, "ArtifactKey", value=endpoint.artifact.artifact_key)
app.synth()

"""The CDK app the end-to-end tests deploy; what it declares comes from the JSON in ENDPOINT_APP."""

import json
import os

from aws_cdk import App, CfnOutput, Environment, RemovalPolicy, Stack
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint, Quantization

given = json.loads(os.environ["ENDPOINT_APP"])
app = App()
stack = Stack(
    app,
    given["stack"],
    env=Environment(account=os.environ["CDK_DEFAULT_ACCOUNT"], region=os.environ["CDK_DEFAULT_REGION"]),
)
if given["bucket"]:
    store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Artifacts", given["bucket"]))
else:
    store = ArtifactStore(stack, "Artifacts", removal_policy=RemovalPolicy.RETAIN)
if given["model_uri"]:
    model = Model.s3(given["model_uri"])
else:
    model = Model.jumpstart("meta-textgeneration-llama-2-70b", version="4.0.0", accept_eula=True)
endpoint = OptimizedEndpoint(
    stack,
    "Llama70B",
    model=model,
    techniques=[Quantization.awq(group_size=given["group_size"], ignored_layers=given["ignored_layers"])],
    instance_type="ml.g5.12xlarge",
    artifact_store=store,
)
endpoint.auto_scale(max_capacity=given["max_capacity"]).on_concurrency(target=8)
CfnOutput(stack, "EndpointName", value=endpoint.endpoint_name)
CfnOutput(stack, "ArtifactKey", value=endpoint.artifact.artifact_key)
app.synth()

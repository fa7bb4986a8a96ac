"""A CDK app with one endpoint for each entry of ENDPOINT_APP's ``endpoints``."""

import json
import os

from aws_cdk import App, CfnOutput, Environment, Stack
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint
from constructs_optim.recipe.techniques.parsing import parse

given = json.loads(os.environ["ENDPOINT_APP"])
app = App()
stack = Stack(
    app,
    given["stack"],
    env=Environment(account=os.environ["CDK_DEFAULT_ACCOUNT"], region=os.environ["CDK_DEFAULT_REGION"]),
)
store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Artifacts", given["bucket"]))
for name, (model_id, instance_type, techniques) in given["endpoints"].items():
    endpoint = OptimizedEndpoint(
        stack,
        name,
        model=Model.jumpstart(model_id, version="9.0.0", accept_eula=True),
        techniques=[parse(text) for text in techniques],  # type: ignore[misc]
        instance_type=instance_type,
        artifact_store=store,
    )
    endpoint.auto_scale(max_capacity=2).on_concurrency(target=4)
    CfnOutput(stack, f"{name}Endpoint", value=endpoint.endpoint_name)
    if endpoint.inference_component_name is not None:
        CfnOutput(stack, f"{name}Component", value=endpoint.inference_component_name)
app.synth()

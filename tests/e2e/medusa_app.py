"""A CDK app with an endpoint of Medusa heads on a fine-tuned model, as MEDUSA_APP says."""

import json
import os

from aws_cdk import App, CfnOutput, Environment, Stack
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, FineTune, Medusa, Model, OptimizedEndpoint

given = json.loads(os.environ["MEDUSA_APP"])
app = App()
stack = Stack(
    app,
    given["stack"],
    env=Environment(account=os.environ["CDK_DEFAULT_ACCOUNT"], region=os.environ["CDK_DEFAULT_REGION"]),
)
store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Artifacts", given["bucket"]))
data = {"training_data": given["training_data"], "validation_data": given["validation_data"]}
endpoint = OptimizedEndpoint(
    stack,
    "Sql",
    model=Model.s3(given["model"]),
    techniques=[
        Medusa(
            **data,
            heads=given["heads"],
            hyperparameters=given["head_training"],
            base=FineTune(**data, method="full", hyperparameters=given["fine_tuning"]),
        )
    ],
    instance_type="ml.g5.xlarge",
    artifact_store=store,
)
CfnOutput(stack, "Endpoint", value=endpoint.endpoint_name)
app.synth()

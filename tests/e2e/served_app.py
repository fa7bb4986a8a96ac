"""A CDK app with an endpoint of a model that a job quantizes, behind a gate, as SERVED_APP says."""

import json
import os

from aws_cdk import App, CfnOutput, Environment, Stack
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint, QualityRequirement, Quantization, Workload

given = json.loads(os.environ["SERVED_APP"])
app = App()
environment = Environment(account=os.environ["CDK_DEFAULT_ACCOUNT"], region=os.environ["CDK_DEFAULT_REGION"])
stack = Stack(app, given["stack"], env=environment)
endpoint = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.s3(given["model"]),
    techniques=[Quantization.w4a16(calibration_data=given["samples"], calibration_size=16)],
    instance_type="ml.g6.xlarge",
    artifact_store=ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Artifacts", given["bucket"])),
)
endpoint.evaluate(workload=Workload(concurrency=[1], requests=20)).require(
    quality=QualityRequirement(prompts=given["prompts"], max_tokens=16)
)
CfnOutput(stack, "EndpointName", value=endpoint.endpoint_name)
app.synth()

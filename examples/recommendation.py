"""Two SageMaker recommendations for your own model: the configuration with the lowest cost and the fastest one.

The stack waits for the first recommendation and uses it; the second is in the store after its job.
"""

import os

from aws_cdk import Acknowledgment, App, CfnOutput, Duration, Environment, Stack, Validations
from aws_cdk import aws_iam as iam

from constructs_optim import ArtifactStore, Model, ModelRecommendation, Workload

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
# A role that sagemaker.amazonaws.com can assume; the library attaches the permissions of the jobs.
role = iam.Role.from_role_name(stack, "chat-recommendations-role", "chat-recommendations")
model = Model.s3("s3://my-models/chat-12b/")
workload = Workload(concurrency=[8], prompts="s3://my-prompts/chat.jsonl")

cheapest = ModelRecommendation(
    stack,
    "Cheapest",
    model=model,
    role=role,
    workload=workload,
    optimize_for="cost",
    instance_types=["ml.g6e.2xlarge", "ml.g6e.12xlarge", "ml.p5.4xlarge"],
    artifact_store=store,
    timeout=Duration.hours(6),
)
soonest = ModelRecommendation(
    stack,
    "Soonest",
    model=model,
    role=role,
    workload=workload,
    optimize_for="latency",
    framework="VLLM",
    artifact_store=store,
    wait=False,
)
CfnOutput(stack, "CheapestInstanceType", value=cheapest.instance_type)
CfnOutput(stack, "SoonestResult", value=soonest.result_uri)
# With @aws-cdk/core:validateAgainstDefaultRules, the CDK takes a wait condition's data in outputs for an object.
Validations.of(stack).acknowledge(
    Acknowledgment(id="CloudFormation-Validate::F6101", reason="Fn::GetAtt of a wait condition's Data gives its text.")
)

app.synth()

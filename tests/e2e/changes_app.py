"""The CDK app whose scaled endpoint changes; its instance type comes from INSTANCE_TYPE."""

import os

from aws_cdk import App, Duration, Environment, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.aws_applicationautoscaling import ScalingInterval

from constructs_optim import Model, OptimizedEndpoint, UpdatePolicy

app = App()
stack = Stack(
    app,
    "Changes",
    env=Environment(account=os.environ["CDK_DEFAULT_ACCOUNT"], region=os.environ["CDK_DEFAULT_REGION"]),
)
endpoint = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.s3("s3://models-of-changes/llama/"),
    techniques=[],
    instance_type=os.environ["INSTANCE_TYPE"],
    update_policy=UpdatePolicy.all_at_once(bake_time=Duration.seconds(0)),
)
scaling = endpoint.auto_scale(max_capacity=4).on_concurrency(target=8)
scaling.on_steps(
    "OnErrors",
    metric=cloudwatch.Metric(namespace="Tests", metric_name="Errors"),
    steps=[ScalingInterval(lower=10, change=1), ScalingInterval(upper=5, change=-1)],
)
scaling.on_schedule("Mornings", schedule="cron(0 7 ? * MON-FRI *)", min_capacity=2)
app.synth()

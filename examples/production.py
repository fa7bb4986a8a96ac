"""Production endpoints: instance pools, a canary, alarms that page, and two models on one endpoint."""

import os

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.aws_cloudwatch_actions import SnsAction

from constructs_optim import (
    Adapters,
    Alarms,
    AlarmSettings,
    DataCapture,
    Model,
    MonitoringOptions,
    OptimizedEndpoint,
    Pool,
    Quantization,
    Routing,
    Server,
    UpdatePolicy,
    VariantOptions,
)

app = cdk.App()
stack = cdk.Stack(
    app,
    "Production",
    env=cdk.Environment(
        account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
        region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
    ),
)
pages = sns.Topic.from_topic_arn(stack, "Pages", "arn:aws:sns:us-west-2:111122223333:pages")
captures = s3.Bucket.from_bucket_name(stack, "Captures", "chat-captures")

chat = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
    # SageMaker uses the first type with capacity; each type has its own artifact.
    instance_pools=[
        Pool("ml.p5.48xlarge", techniques=[Quantization.fp8()]),
        Pool("ml.g5.12xlarge", techniques=[Quantization.awq()]),
    ],
    variant=VariantOptions(initial_instance_count=2, routing=Routing.prefix_aware()),
    data_capture=DataCapture(bucket=captures, sampling_percentage=5),
    # Update half of the instances first; an alarm in this time rolls back the endpoint and fails the deployment.
    update_policy=UpdatePolicy.canary(percent=50, bake_time=cdk.Duration.minutes(15)),
    monitoring=MonitoringOptions(
        alarms=Alarms(latency=AlarmSettings(threshold=20), error_rate=AlarmSettings(threshold=1)),
        alarm_actions=[SnsAction(pages)],
    ),
)
chat.auto_scale(min_capacity=2, max_capacity=8).on_concurrency()

shared = OptimizedEndpoint(
    stack, "Shared", instance_type="ml.g5.12xlarge", variant=VariantOptions(max_instance_count=2)
)
assistant = shared.add_component(
    "Assistant",
    model=Model.s3("s3://models-of-mine/assistant/"),
    techniques=[Quantization.awq(tensor_parallel_degree=2)],
    server=Server.vllm(adapters=Adapters(max_loaded=4)),
)
assistant.add_adapter("Sql", artifact_uri="s3://models-of-mine/adapters/sql.tar.gz")
night_shift = shared.add_component(
    "NightShift",
    model=Model.s3("s3://models-of-mine/batch/"),
    techniques=[Quantization.awq(tensor_parallel_degree=1)],
)
# No copies during the day; one in the evening, and more when requests need them.
scaling = night_shift.auto_scale(min_capacity=0, max_capacity=2).on_concurrency()
scaling.stop_on(schedule="cron(0 6 * * ? *)", time_zone="Europe/Berlin")
scaling.start_on(schedule="cron(0 20 * * ? *)", time_zone="Europe/Berlin")

app.synth()

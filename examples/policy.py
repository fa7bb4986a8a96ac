"""An app under a platform team's policy: `cdk synth` reports what the policy does not allow."""

import os

import aws_cdk as cdk
from aws_cdk import aws_sns as sns
from aws_cdk.aws_cloudwatch_actions import SnsAction

from constructs_optim import Model, MonitoringOptions, OptimizedEndpoint, PlatformPolicy, PolicyValidation, Quantization

policy = PlatformPolicy(
    allowed_instance_types=["ml.g5.*", "ml.p5.48xlarge"],
    required_techniques=["quantization"],
    max_monthly_cost=25_000,
    instance_prices={"ml.g5.12xlarge": 7.09, "ml.p5.48xlarge": 63.3},
    accepted_licenses=["Meta Llama 3 Community License Agreement", "s3://models-of-mine/*"],
    pinned_model_versions=True,
    vpc_required=True,
    autoscaling_required=True,
    alarm_actions_required=True,
    # Nobody can acknowledge an unaccepted license; an endpoint of a fixed size causes only a warning.
    severities={"POL020": "fatal", "POL040": "warning"},
    reasons={"POL001": "the reservations of this year are for these types"},
)

app = cdk.App()
here = cdk.Environment(
    account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
    region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
)
stack = cdk.Stack(app, "Governed", env=here)
cdk.Validations.of(app).add_plugins(PolicyValidation(policy))

chat = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
    techniques=[Quantization.awq()],
    instance_type="ml.g5.12xlarge",
    monitoring=MonitoringOptions(
        alarm_actions=[SnsAction(sns.Topic.from_topic_arn(stack, "Pages", "arn:aws:sns:us-west-2:111122223333:pages"))]
    ),
)
chat.auto_scale(max_capacity=4).on_concurrency(target=8)
# The report lists acknowledged findings with their location and reason.
PolicyValidation.acknowledge(chat, "POL031", reason="a test account without a VPC, until the end of March")

app.synth()

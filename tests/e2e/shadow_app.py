"""A CDK app with an endpoint that may have a shadow, as SHADOW_APP says."""

import json
import os

from aws_cdk import App, CfnOutput, Duration, Environment, RemovalPolicy, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns

from constructs_optim import (
    AnswerCheck,
    ArtifactStore,
    DataCapture,
    Model,
    OptimizedEndpoint,
    Quantization,
    ShadowCandidate,
    UpdatePolicy,
    VariantOptions,
)

JUDGE = """
def handler(event, context):
    texts = [event[side]["choices"][0]["message"]["content"] for side in ("production", "candidate")]
    return {"production": True, "candidate": texts[0] == texts[1]}
"""

given = json.loads(os.environ["SHADOW_APP"])
app = App()
stack = Stack(
    app,
    given["stack"],
    env=Environment(account=os.environ["CDK_DEFAULT_ACCOUNT"], region=os.environ["CDK_DEFAULT_REGION"]),
)
key = kms.Key(stack, "Key", removal_policy=RemovalPolicy.DESTROY)
captures = s3.Bucket(
    stack,
    "Captures",
    encryption_key=key,
    enforce_ssl=True,
    removal_policy=RemovalPolicy.DESTROY,
)
topic = sns.Topic(stack, "Verdicts")
judge = lambda_.Function(
    stack,
    "Judge",
    runtime=lambda_.Runtime.PYTHON_3_12,
    handler="index.handler",
    code=lambda_.Code.from_inline(JUDGE),
)
endpoint = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.s3(given["model"]),
    techniques=[Quantization.awq()] if given.get("promoted") else [],
    instance_type="ml.g5.12xlarge",
    # Baking of another length is an update of the endpoint alone, to the configuration that the template names.
    update_policy=UpdatePolicy.all_at_once(bake_time=Duration.seconds(given.get("bake", 0))),
    variant=VariantOptions(initial_instance_count=given.get("instances", 1)),
    data_capture=DataCapture(bucket=captures),
    artifact_store=ArtifactStore.from_bucket(
        s3.Bucket.from_bucket_attributes(
            stack,
            "Artifacts",
            bucket_name=given["bucket"],
            encryption_key=kms.Key.from_key_arn(stack, "StoreKey", given["key"]),
        )
    ),
)
if not given.get("promoted"):
    endpoint.shadow(
        candidate=ShadowCandidate(techniques=[Quantization.awq()]),
        checks=[AnswerCheck.judge(judge.function_arn), AnswerCheck.reference(given["reference"])],
        sample_percent=100,
        duration=Duration.hours(3),
        margin=0.05,
        promote=True,
        topic=topic,
    )
CfnOutput(stack, "Topic", value=topic.topic_arn)
app.synth()

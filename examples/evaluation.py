"""An endpoint that is evaluated after each deployment and every day; a failed requirement rolls back the deployment."""

import os

import aws_cdk as cdk

from constructs_optim import (
    Model,
    OptimizedEndpoint,
    QualityRequirement,
    Quantization,
    Workload,
)

app = cdk.App()
stack = cdk.Stack(
    app,
    "Evaluated",
    env=cdk.Environment(
        account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
        region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
    ),
)

chat = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
    techniques=[Quantization.awq()],
    instance_type="ml.g5.12xlarge",
)
evaluation = chat.evaluate(
    workload=Workload(concurrency=[1, 8, 64], input_tokens=622, output_tokens=250),
    schedule="cron(0 4 * * ? *)",
)
# A deployment that misses these limits, or is more than 5% worse than the previous one, is rolled back.
evaluation.require(
    p99_ttft_ms=2000,
    min_output_tokens_per_second=20,
    max_regression=0.05,
    quality=QualityRequirement(prompts="s3://prompts-of-mine/quality.jsonl", max_difference=0.15),
)

app.synth()

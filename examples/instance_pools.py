"""An endpoint that uses the instance types with available capacity: one pool for each type, in order of preference.

Each pool has techniques that suit its accelerators, and its own artifact. If a type has no capacity, SageMaker
launches and scales out the endpoint on the next type.
"""

import os

import aws_cdk as cdk

from constructs_optim import Model, OptimizedEndpoint, Pool, Quantization, VariantOptions

app = cdk.App()
stack = cdk.Stack(
    app,
    "Pooled",
    env=cdk.Environment(
        account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
        region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
    ),
)
chat = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
    instance_pools=[
        Pool("ml.p5.48xlarge", techniques=[Quantization.fp8()]),
        Pool("ml.g6e.12xlarge", techniques=[Quantization.fp8()]),
        Pool("ml.g5.12xlarge", techniques=[Quantization.awq()]),
    ],
    # How long SageMaker tries to find an instance.
    variant=VariantOptions(instance_provision_timeout=cdk.Duration.minutes(30)),
)
chat.auto_scale(min_capacity=1, max_capacity=4).on_concurrency()
for number, plan in enumerate(chat.plans, 1):
    cdk.CfnOutput(stack, f"Pool{number}", value=plan.summary)

app.synth()

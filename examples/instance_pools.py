"""An endpoint that takes the instances it can get: a pool for each type, in the order they are preferred.

Each pool has the techniques that suit its accelerators, and an artifact of its own. Where a type has no capacity, the
endpoint is launched, and scales out, on the next.
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
    # How long SageMaker looks for an instance before it gives up.
    variant=VariantOptions(instance_provision_timeout=cdk.Duration.minutes(30)),
)
chat.auto_scale(min_capacity=1, max_capacity=4).on_concurrency()
for number, plan in enumerate(chat.plans, 1):
    cdk.CfnOutput(stack, f"Pool{number}", value=plan.summary)

app.synth()

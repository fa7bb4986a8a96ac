"""An endpoint that costs nothing at night: it scales to zero without requests, and sharded weights load fast.

One job quantizes the weights and a second one shards them. The fast model loader streams the shards from S3 into the
accelerators, so that a copy starts quickly at the first request of the morning.
"""

import os

from aws_cdk import App, CfnOutput, Environment, Stack

from constructs_optim import Model, OptimizedEndpoint, Quantization, Sharding

app = App()
env = Environment(
    account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
    region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
)
stack = Stack(app, "ToZero", env=env)

endpoint = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
    techniques=[Quantization.awq(), Sharding.fast_load()],
    instance_type="ml.g5.12xlarge",
)
scaling = endpoint.auto_scale(min_capacity=0, max_capacity=2)
scaling.on_concurrency(target=4)
scaling.on_schedule("Night", schedule="cron(0 20 * * ? *)", min_capacity=0, max_capacity=0)
scaling.on_schedule("Morning", schedule="cron(0 6 ? * MON-FRI *)", min_capacity=1, max_capacity=2)

CfnOutput(stack, "EndpointName", value=endpoint.endpoint_name)
CfnOutput(stack, "InferenceComponentName", value=str(endpoint.inference_component_name))
app.synth()

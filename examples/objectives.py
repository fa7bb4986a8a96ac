r"""An endpoint declared by objectives: ``optim.lock.json`` records its instances, techniques, and batch limits.

To make or update this choice, run (docs/recommendation.md)::

    constructs-optim recommend meta-textgeneration-llama-3-70b-instruct --model-version 2.25.0 \
        --input-tokens 1000 --output-tokens 300 --rate 5 --ttft 2s --itl 60ms --update
"""

import os

from aws_cdk import App, CfnOutput, Environment, Stack

from constructs_optim import Model, Objectives, OptimizedEndpoint

app = App()
env = Environment(
    account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
    region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
)
stack = Stack(app, "Intended", env=env)

chat = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
    objectives=Objectives(
        input_tokens=1000,
        output_tokens=300,
        requests_per_second=5,
        time_to_first_token=2000,
        inter_token_latency=60,
    ),
)
chat.auto_scale().on_concurrency()
# The choice is based on a forecast. If the endpoint is slower, the deployment is rolled back.
chat.evaluate().require(forecast=True)

CfnOutput(stack, "EndpointName", value=chat.endpoint_name)
app.synth()

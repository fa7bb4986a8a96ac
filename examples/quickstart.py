"""One endpoint: Llama 3 70B, quantized to INT4 with AWQ, which scales on concurrent requests.

cdk deploy --app "python examples/quickstart.py"
"""

import os

from aws_cdk import App, CfnOutput, Environment, Stack

from constructs_optim import Model, OptimizedEndpoint, Quantization

app = App()
env = Environment(
    account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
    region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
)
stack = Stack(app, "Quickstart", env=env)

endpoint = OptimizedEndpoint(
    stack,
    "Llama70B",
    model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
    techniques=[Quantization.awq()],
    instance_type="ml.g5.12xlarge",
)
endpoint.auto_scale(max_capacity=4).on_concurrency(target=8)

CfnOutput(stack, "EndpointName", value=endpoint.endpoint_name)
app.synth()

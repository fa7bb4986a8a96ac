"""A model compiled for Inferentia: SageMaker already has the compiled artifact, and the job only fetches it.

For pre-compiled models (`constructs-optim catalog models`, column `pre_compiled`) on ml.inf2.48xlarge and
ml.trn1.32xlarge, the job takes minutes. Other models must be compiled, which takes hours.
"""

import os

from aws_cdk import App, CfnOutput, Environment, Stack

from constructs_optim import Compilation, Model, OptimizedEndpoint

app = App()
env = Environment(
    account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
    region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
)
stack = Stack(app, "Neuron", env=env)

endpoint = OptimizedEndpoint(
    stack,
    "Llama8B",
    model=Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.24.0", accept_eula=True),
    # The compiled model is for exactly these limits: requests of up to 4,096 tokens, 8 at a time.
    techniques=[Compilation.neuron(tensor_parallel_degree=8, maximum_batch_size=8, maximum_sequence_length=4096)],
    instance_type="ml.inf2.48xlarge",
)
endpoint.auto_scale(max_capacity=2).on_concurrency(target=8)

CfnOutput(stack, "EndpointName", value=endpoint.endpoint_name)
app.synth()

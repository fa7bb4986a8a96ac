"""A Hugging Face model with a published NVFP4 checkpoint, a published speculator, and the KV cache in FP8.

Two jobs copy the files into the artifact store, once for all stacks; no other job runs. First look up the commits:
``constructs-optim lock --model nvidia/gemma-4-31B-it-NVFP4 --model RedHatAI/gemma-4-31B-it-speculator.eagle3`` records
them in ``optim.lock.json``. To replace them, set context values: ``--context revision=<commit>``, and
``--context mirror=https://hub.example`` for a mirror of the hub.
"""

import os

from aws_cdk import App, CfnOutput, Environment, Stack

from constructs_optim import (
    KvCache,
    Model,
    OptimizedEndpoint,
    Quantization,
    Server,
    SpeculativeDecoding,
    TrainingCompute,
)

app = App()
env = Environment(
    account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
    region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
)
stack = Stack(app, "Copied", env=env)
revision, mirror = (app.node.try_get_context(name) for name in ("revision", "mirror"))
copying = TrainingCompute(environment={"HF_ENDPOINT": mirror} if mirror else None)


def copied(model_id: str) -> Model:
    """Return a model at the commit from the context or the lock file, copied from the mirror if there is one."""
    return Model.huggingface(model_id, revision=revision, compute=copying)


endpoint = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.huggingface("google/gemma-4-31B-it"),
    techniques=[
        Quantization.nvfp4(checkpoint=copied("nvidia/gemma-4-31B-it-NVFP4")),
        SpeculativeDecoding.speculator(model=copied("RedHatAI/gemma-4-31B-it-speculator.eagle3")),
        KvCache.fp8(),
    ],
    instance_type="ml.g7e.2xlarge",
    server=Server.vllm(context_length=32_768),
)
endpoint.auto_scale(max_capacity=4).on_concurrency(target=32)

CfnOutput(stack, "EndpointName", value=endpoint.endpoint_name)
app.synth()

"""A CDK app with an endpoint of a Hugging Face model, its ready-made checkpoint and a speculator, as MODEL_APP says."""

import json
import os

from aws_cdk import App, CfnOutput, Environment, Stack
from aws_cdk import aws_s3 as s3

from constructs_optim import (
    ArtifactStore,
    KvCache,
    Model,
    OptimizedEndpoint,
    Quantization,
    Routing,
    SpeculativeDecoding,
    TrainingCompute,
    VariantOptions,
)

given = json.loads(os.environ["MODEL_APP"])
app = App()
stack = Stack(
    app,
    given["stack"],
    env=Environment(account=os.environ["CDK_DEFAULT_ACCOUNT"], region=os.environ["CDK_DEFAULT_REGION"]),
)
compute = TrainingCompute(environment={"HF_ENDPOINT": given["hub"]})


def copied(model_id: str, token_secret_arn: str | None = None) -> Model:
    return Model.huggingface(model_id, revision=given["commit"], token_secret_arn=token_secret_arn, compute=compute)


checkpoint = copied("nvidia/Qwen3-32B-NVFP4", given.get("secret"))
speculator = copied("RedHatAI/Qwen3-32B-speculator.eagle3")
endpoint = OptimizedEndpoint(
    stack,
    "Chat",
    model=copied("Qwen/Qwen3-32B"),
    techniques=[
        Quantization.nvfp4(checkpoint=checkpoint),
        SpeculativeDecoding.speculator(model=speculator),
        KvCache.fp8(),
    ],
    instance_type="ml.g7e.2xlarge",
    variant=VariantOptions(routing=getattr(Routing, given.get("routing", "random"))()),
    artifact_store=ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Artifacts", given["bucket"])),
)
CfnOutput(stack, "Endpoint", value=endpoint.endpoint_name)
CfnOutput(stack, "BaseUrl", value=endpoint.openai_base_url)
app.synth()

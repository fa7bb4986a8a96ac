"""Stacks that the tests with IAM enforced deploy, and what they find in the local cloud."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aws_cdk import RemovalPolicy, Stack, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from constructs_optim import (
    ArtifactStore,
    Model,
    NetworkOptions,
    OptimizationJob,
    OptimizedEndpoint,
    Quantization,
    Routing,
    Sharding,
    SpeculativeDecoding,
    VariantOptions,
)

STORE, MODELS = "shared-artifacts", "models-of-mine"
LLAMA_3, LLAMA_31 = "meta-textgeneration-llama-3-8b", "meta-textgeneration-llama-3-1-8b"
G5 = "ml.g5.12xlarge"


def hub(model_id: str) -> Model:
    """A model of the hub."""
    return Model.jumpstart(model_id, version="9.0.0", accept_eula=True)


def every_kind(stack: Stack) -> None:
    """A draft in a VPC, a chain of two jobs, heads, a draft of one's own, models of one's own; the store encrypted."""
    key = kms.Key(stack, "Key", removal_policy=RemovalPolicy.DESTROY)
    store = ArtifactStore(stack, "Artifacts", encryption_key=key)
    # The local cloud's default VPC.
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-00000001",
        availability_zones=["us-west-2a"],
        private_subnet_ids=["subnet-00000001"],
    )
    group = ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-11111111")
    in_vpc = {"network": NetworkOptions(vpc=vpc, security_groups=[group])}
    quantized, mine = Quantization.awq(), Model.s3(f"s3://{MODELS}/mine/")
    heads = SpeculativeDecoding.eagle(training_data=f"s3://{MODELS}/prompts/")
    own_draft = SpeculativeDecoding.custom_draft(uri=f"s3://{MODELS}/draft/")
    draft_of_hub = SpeculativeDecoding.jumpstart_draft(model_id=LLAMA_31, version="9.0.0", accept_eula=True)
    for name, model, techniques, network in (
        ("Drafted", hub(LLAMA_3), [quantized, SpeculativeDecoding.sagemaker_draft()], in_vpc),
        ("Sharded", hub(LLAMA_3), [quantized, Sharding.fast_load()], {}),
        ("Heads", hub(LLAMA_31), [heads], {}),
        ("Mine", mine, [quantized, own_draft], {}),
        ("DraftedByHub", hub(LLAMA_3), [draft_of_hub], {}),
    ):
        OptimizedEndpoint(
            stack, name, model=model, techniques=techniques, instance_type=G5, artifact_store=store, **network
        )


def one_job(key_arn: str, *, ignored_layers: Sequence[str] = ()) -> Callable[[Stack], None]:
    """A tagged job whose artifact goes to the shared, encrypted store."""

    def build(stack: Stack) -> None:
        bucket = s3.Bucket.from_bucket_name(stack, "Bucket", STORE)
        key = kms.Key.from_key_arn(stack, "Key", key_arn)
        job = OptimizationJob(
            stack,
            "Job",
            model=hub(LLAMA_3),
            techniques=[Quantization.awq(ignored_layers=list(ignored_layers))],
            instance_type=G5,
            artifact_store=ArtifactStore.from_bucket(bucket, encryption_key=key),
        )
        resource = job.node.find_child("Resource")
        resource.add_property_override("Tags", [{"Key": "team", "Value": "chat"}])  # type: ignore[attr-defined]

    return build


def one_reference(key_arn: str, artifact_key: str) -> Callable[[Stack], None]:
    """An endpoint that serves the artifact of :func:`one_job` by its key, from the shared, encrypted store."""

    def build(stack: Stack) -> None:
        bucket = s3.Bucket.from_bucket_name(stack, "Bucket", STORE)
        key = kms.Key.from_key_arn(stack, "Key", key_arn)
        OptimizedEndpoint(
            stack,
            "Referring",
            model=hub(LLAMA_3),
            techniques=[Quantization.awq()],
            instance_type=G5,
            artifact_store=ArtifactStore.from_bucket(bucket, encryption_key=key, read_only=True),
            artifact_key=artifact_key,
        )

    return build


def one_model(stack: Stack) -> None:
    """A tagged component of a model with a draft of one's own, which needs no job, routed by the KV cache."""
    Tags.of(stack).add("team", "chat")
    OptimizedEndpoint(
        stack,
        "Drafted",
        model=hub(LLAMA_3),
        techniques=[SpeculativeDecoding.custom_draft(uri=f"s3://{MODELS}/draft/")],
        instance_type=G5,
        inference_component=True,
        variant=VariantOptions(routing=Routing.kv_aware()),
    )


def bounded(build: Callable[[Stack], None], *denied: str) -> Callable[[Stack], None]:
    """The same stack within a boundary that allows all but the actions that are denied."""

    def within(stack: Stack) -> None:
        build(stack)
        allow = iam.PolicyStatement(actions=["*"], resources=["*"])
        deny = iam.PolicyStatement(effect=iam.Effect.DENY, actions=list(denied), resources=["*"])
        policy = iam.ManagedPolicy(stack, "Boundary", statements=[allow, *([deny] if denied else [])])
        iam.PermissionsBoundary.of(stack).apply(policy)

    return within

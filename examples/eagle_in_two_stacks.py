"""EAGLE heads in two stacks of two accounts: one trains them for days, and the other serves them by their key.

    cdk deploy Training --app "python examples/eagle_in_two_stacks.py" -c maker=111122223333 -c consumer=444455556666
    constructs-optim jobs watch <the JobName output>
    cdk deploy Serving --app "python examples/eagle_in_two_stacks.py" -c maker=111122223333 -c consumer=444455556666

docs/sharing.md explains each part.
"""

from aws_cdk import App, CfnOutput, Environment, Stack
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, Model, OptimizationJob, OptimizedEndpoint, SpeculativeDecoding

app = App()
maker: str = app.node.try_get_context("maker") or "111122223333"
consumer: str = app.node.try_get_context("consumer") or "444455556666"
region = "us-west-2"

# Both stacks use one recipe, which determines the artifact and how it is served.
model = Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="2.6.0", accept_eula=True)
techniques = [SpeculativeDecoding.eagle()]
instance_type = "ml.g5.12xlarge"
bucket_name = f"optimized-artifacts-{maker}-{region}"

training = Stack(app, "Training", env=Environment(account=maker, region=region))
store = ArtifactStore(training, "Artifacts", bucket_name=bucket_name)
store.share_with_account(consumer)
job = OptimizationJob(
    training,
    "Eagle",
    model=model,
    techniques=techniques,
    instance_type=instance_type,
    artifact_store=store,
    # The job can take 120 hours, but a stack waits only 12: the job continues after the stack is created.
    wait=False,
)
CfnOutput(training, "ArtifactKey", value=job.artifact_key)
CfnOutput(training, "JobName", value=job.job_name)

serving = Stack(app, "Serving", env=Environment(account=consumer, region=region))
endpoint = OptimizedEndpoint(
    serving,
    "Llama8B",
    model=model,
    techniques=techniques,
    instance_type=instance_type,
    artifact_key=job.artifact_key,
    artifact_store=ArtifactStore.from_bucket(
        s3.Bucket.from_bucket_name(serving, "Artifacts", bucket_name), read_only=True
    ),
)
endpoint.auto_scale(max_capacity=4).on_concurrency(target=8)
CfnOutput(serving, "EndpointName", value=endpoint.endpoint_name)

app.synth()

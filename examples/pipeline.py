"""CDK Pipelines with an evaluation in staging and a bake time in production.

In staging, the deployment fails if the endpoint misses its requirements, and the pipeline stops before production.
In production, the update bakes for an hour and rolls back if an alarm goes into ALARM. The command

    cdk deploy Artifacts Pipeline --app "python examples/pipeline.py"

deploys the store that both stages share, so that production runs no job, and the pipeline, which deploys the rest. In
the repository, cdk.json runs this file; package-lock.json and requirements.txt list its dependencies.
"""

import os

from aws_cdk import App, Duration, Environment, Stack, Stage, pipelines
from aws_cdk import aws_codepipeline as codepipeline
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from constructs_optim import (
    Alarms,
    AlarmSettings,
    ArtifactStore,
    Model,
    MonitoringOptions,
    OptimizedEndpoint,
    Quantization,
    UpdatePolicy,
    VariantOptions,
    Workload,
)

HERE = Environment(
    account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
    region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
)
STORE = f"optimized-artifacts-of-chat-{HERE.account}"
REPOSITORY = "my-organization/chat"
CONNECTION = f"arn:aws:codeconnections:{HERE.region}:{HERE.account}:connection/11111111-2222-3333-4444-555555555555"


class Artifacts(Stack):
    """The store that both stages share."""

    def __init__(self, scope: Construct, id: str, *, env: Environment) -> None:
        super().__init__(scope, id, env=env)
        ArtifactStore(self, "Artifacts", bucket_name=STORE)


class Chat(Stage):
    """The same endpoint in each stage, with the size and bake time of that stage."""

    def __init__(self, scope: Construct, id: str, *, bakes: bool, env: Environment) -> None:
        super().__init__(scope, id, env=env)
        stack = Stack(self, "Chat")
        store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Store", STORE))
        endpoint = OptimizedEndpoint(
            stack,
            "Endpoint",
            model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
            techniques=[Quantization.awq()],
            instance_type="ml.g5.12xlarge",
            artifact_store=store,
            variant=VariantOptions(initial_instance_count=2),
            monitoring=MonitoringOptions(
                alarms=Alarms(latency=AlarmSettings(threshold=20), error_rate=AlarmSettings(threshold=1))
            ),
            update_policy=UpdatePolicy.canary(percent=50, bake_time=Duration.minutes(60 if bakes else 5)),
        )
        if bakes:
            endpoint.auto_scale(min_capacity=2, max_capacity=8).on_concurrency()
        else:
            evaluation = endpoint.evaluate(workload=Workload(concurrency=[1, 8]), instance_price_per_hour=7.09)
            evaluation.require(p99_ttft_ms=2000, max_regression=0.05)


class Pipeline(Stack):
    """Staging with an evaluation, then a manual approval, then production."""

    def __init__(self, scope: Construct, id: str, *, env: Environment) -> None:
        super().__init__(scope, id, env=env)
        # The CDK grants the use of a connection under its older prefix, codestar-connections, but IAM requires the
        # prefix of the connection's ARN.
        service = iam.ServicePrincipal("codepipeline.amazonaws.com")
        role = iam.Role(self, "Role", assumed_by=service)  # pyright: ignore[reportArgumentType] - the bindings name a parameter otherwise
        role.add_to_policy(iam.PolicyStatement(actions=["codeconnections:UseConnection"], resources=[CONNECTION]))
        pipeline = pipelines.CodePipeline(
            self,
            "Pipeline",
            role=role,  # pyright: ignore[reportArgumentType] - as above
            use_pipeline_role_for_actions=True,
            # V2 is billed by the minute of an action, and jobs, evaluations, and bake times take hours.
            pipeline_type=codepipeline.PipelineType.V1,
            synth=pipelines.ShellStep(
                "Synth",
                input=pipelines.CodePipelineSource.connection(REPOSITORY, "main", connection_arn=CONNECTION),
                commands=["npm ci", "pip install -r requirements.txt", "npx cdk synth"],
            ),
        )
        pipeline.add_stage(Chat(self, "Staging", bakes=False, env=env))
        pipeline.add_stage(
            Chat(self, "Production", bakes=True, env=env),
            pre=[pipelines.ManualApprovalStep("Release", comment="Staging's evaluation is on its dashboard.")],
        )


app = App()
Artifacts(app, "Artifacts", env=HERE)
Pipeline(app, "Pipeline", env=HERE)
app.synth()

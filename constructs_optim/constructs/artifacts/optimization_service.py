"""The service that runs a stack's jobs: handlers of custom resources, the watcher and its state machine.

A stack has one of each for any number of endpoints; each plan only adds permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from aws_cdk import IgnoreMode
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from constructs_optim.constructs.stack.handler import MANAGE, Handler, JobRunner, job_statement
from constructs_optim.constructs.stack.permissions import Arn, Statement, pass_role_statement, statements_of
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.recipe.hosting import CapacityReservation
from constructs_optim.recipe.plan_data import Plan, sources_of

from . import model_source
from .artifact_store import IArtifactStore, store_statements
from .roles import ExecutionRole

_PACKAGE = Path(__file__).parent.parent.parent
_BYTECODE = ("__pycache__", "*.pyc")


class TrainingCode(Construct):
    """The code for training containers as a zip archive. ``uri`` is its ``s3://`` URI (a token)."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        asset = s3_assets.Asset(
            self,
            "Asset",
            path=str(_PACKAGE),
            exclude=["/*", "!/training", "!/runtime", "/runtime/*", "!/runtime/model_files.py", *_BYTECODE],
            ignore_mode=IgnoreMode.GIT,
        )
        self._bucket, self._key = asset.s3_bucket_name, asset.s3_object_key
        self.uri: str = f"s3://{self._bucket}/{self._key}"

    def statements(self) -> list[Statement]:
        """Return the permissions to read the archive as an input channel, whose objects SageMaker lists."""
        bucket = ["arn:", {"Ref": "AWS::Partition"}, ":s3:::", self._bucket]
        return [
            Statement("ReadTrainingCode", ("s3:GetObject",), ({"Fn::Join": ["", [*bucket, f"/{self._key}"]]},)),
            Statement(
                "ListTrainingCode",
                ("s3:ListBucket",),
                ({"Fn::Join": ["", bucket]},),
                {"StringLike": {"s3:prefix": f"{self._key}*"}},
            ),
        ]


class OptimizationService(Construct):
    """The handlers, watcher and state machine of a stack. Use ``of``."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        code = s3_assets.Asset(
            self,
            "Code",
            path=str(_PACKAGE),
            exclude=["/*", "!/runtime", *_BYTECODE],
            ignore_mode=IgnoreMode.GIT,
        )
        self.code: Mapping[str, str] = {"S3Bucket": code.s3_bucket_name, "S3Key": code.s3_object_key}
        self._jobs: JobRunner | None = None

    @cached_property
    def execution_role(self) -> ExecutionRole:
        """The role of models, which a stack with only jobs does not have."""
        return ExecutionRole(self, "ExecutionRole", description="What SageMaker may do for models and endpoints")

    @cached_property
    def job_role(self) -> ExecutionRole:
        """The role of jobs, which a stack that only refers to artifacts does not have."""
        return ExecutionRole(self, "JobRole", description="What SageMaker may do for optimization and training jobs")

    @cached_property
    def copy_role(self) -> ExecutionRole:
        """The role of jobs that copy gated models; only this role may read their tokens."""
        return ExecutionRole(self, "CopyRole", description="What SageMaker may do for jobs that copy gated models")

    @cached_property
    def training_code(self) -> TrainingCode:
        """The code for training containers."""
        return TrainingCode(self, "TrainingCode")

    @staticmethod
    def of(scope: Construct) -> OptimizationService:
        """Return the service of ``scope``'s stack, created on first use."""
        context = StackContext.of(scope)
        return context.once(OptimizationService, lambda: OptimizationService(context.stack, "OptimizationService"))

    def job_runner(
        self,
        plan: Plan,
        store: IArtifactStore,
        *,
        role_arns: Mapping[str, Arn],
        reservation: CapacityReservation | None = None,
    ) -> JobRunner:
        """Return the runner of ``plan``'s jobs, with permissions for its sources, roles, store and reservation.

        ``role_arns`` maps the IDs of ``iam:PassRole`` statements to roles.
        """
        kinds = sorted({job.kind for job in plan.jobs})
        manage = [job_statement(_of_kind("ManageJobs", kind), kind, *MANAGE) for kind in kinds]
        describe = [job_statement(_of_kind("WatchJobs", kind), kind, "Describe") for kind in kinds]
        if self._jobs is None:
            self._jobs = JobRunner(
                self,
                "job",
                code=self.code,
                job="optimization job",
                handler=("Starts, shares and stops optimization jobs", manage),
                watcher=("Checks a running optimization job", describe),
                start_sid="WatchJobs",
            )
            self._jobs.handler.permit(statements_of("find stacks"))
        records = store_statements(store, "keep records")
        self._jobs.handler.permit(
            [
                *manage,
                *model_source.lookup_statements(*sources_of(plan.jobs)),
                *records,
                *store_statements(store, "keep references"),
                *(pass_role_statement(sid, arn) for sid, arn in role_arns.items()),
            ]
        )
        if reservation is not None:
            # CreateTrainingJob has the training plan as a resource (IAM service authorization reference). We assume the
            # same for CreateOptimizationJob, which the reference does not mention yet.
            actions = tuple(f"sagemaker:Create{kind}" for kind in kinds)
            self._jobs.handler.permit([Statement("UseReservation", actions, (reservation.arn,))])
        self._jobs.watcher.permit([*describe, *records])
        return self._jobs

    def artifact_handler(self, store: IArtifactStore, plan: Plan) -> Handler:
        """Return the handler of references to artifacts, with permissions to read ``store`` and record references."""
        kind = plan.jobs[-1].kind
        self._artifacts.permit(
            [
                job_statement(_of_kind("DescribeJobs", kind), kind, "Describe"),
                *store_statements(store, "read artifacts"),
                *store_statements(store, "keep references"),
            ]
        )
        return self._artifacts

    @cached_property
    def _artifacts(self) -> Handler:
        description = "Finds artifacts by key, and records references to them"
        return Handler(self, "Artifacts", code=self.code, module="artifact_handler", description=description)

    def model_service_token(self, plan: Plan, *, role_arn: Arn) -> str:
        """Return the handler of models that CloudFormation does not support, with permissions for ``plan``'s models."""
        container = plan.container
        sources = (container.model, *(channel.source for channel in container.channels))
        lookups = model_source.lookup_statements(*sources)
        role_statement = pass_role_statement("PassExecutionRole", role_arn)
        self._models.permit([*statements_of("manage models"), *lookups, role_statement])
        return self._models.arn

    @cached_property
    def _models(self) -> Handler:
        description = "Creates and deletes models with additional files"
        return Handler(self, "Models", code=self.code, module="model_handler", description=description)

    def endpoint_config_service_token(self, role_arn: Arn | None) -> str:
        """Return the handler of endpoint configurations that CloudFormation does not support.

        ``role_arn`` is the role in the configuration.
        """
        self._endpoint_configs.permit(statements_of("manage endpoint configurations"))
        if role_arn is not None:
            self._endpoint_configs.permit([pass_role_statement("PassExecutionRole", role_arn)])
        return self._endpoint_configs.arn

    @cached_property
    def _endpoint_configs(self) -> Handler:
        description = "Creates and deletes endpoint configurations that CloudFormation cannot express"
        return Handler(
            self, "EndpointConfigs", code=self.code, module="endpoint_config_handler", description=description
        )

    @cached_property
    def component_runner(self) -> JobRunner:
        """The handlers of inference components that CloudFormation does not support."""
        return JobRunner(
            Construct(self, "Components"),
            "component",
            code=self.code,
            job="inference component",
            handler=("Starts changes of inference components that CloudFormation cannot express", []),
            watcher=("Creates, updates and deletes such inference components", []),
            supersedes=True,
        )

    @cached_property
    def capacity_service_token(self) -> str:
        """The handler that looks up the number of copies of the stack's inference components."""
        description = "Looks up the number of copies of inference components"
        handler = Handler(self, "Capacity", code=self.code, module="capacity_handler", description=description)
        handler.permit(statements_of("look up copies", Stack={"Ref": "AWS::StackId"}))
        return handler.arn


def _of_kind(sid: str, kind: str) -> str:
    """Return a separate statement ID for each kind of job, because statements with the same ID are merged."""
    return sid if kind == "OptimizationJob" else sid.replace("Jobs", f"{kind}s")

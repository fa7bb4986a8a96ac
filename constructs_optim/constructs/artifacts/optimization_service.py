"""What carries jobs out, once a stack: the custom resources' handlers, the watcher and its state machine.

However many endpoints a stack has, there is one of each that it needs; a plan only adds permissions to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import IgnoreMode
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from constructs_optim.constructs.stack.handler import ANSWER_SECONDS, Handler
from constructs_optim.constructs.stack.permissions import (
    Arn,
    Statement,
    pass_role_statement,
    sub,
)
from constructs_optim.constructs.stack.stack_facts import facts_of
from constructs_optim.constructs.stack.watching_state_machine import watching_state_machine
from constructs_optim.recipe.planning.plan_data import (
    ArtifactSource,
    HubDraftSource,
    HubSource,
    Plan,
    S3Source,
)

from . import model_source
from .artifact_store import IArtifactStore
from .execution_role import ExecutionRole, owner_statements, reader_statements, record_keeping_statements
from .training_code import TrainingCode

_ID = "OptimizationService"
_PACKAGE = Path(__file__).parent.parent.parent
_JOB_NAMES = "a job's name follows from its artifact key, which is known only when the stack is deployed"
_MODELS_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:model/optim-*"
_COMPONENTS_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:inference-component/*"
# As IAM names the resources of SageMaker's jobs.
_JOB_ARNS = {
    "OptimizationJob": "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:optimization-job/optim-*",
    "TrainingJob": "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:training-job/optim-*",
}


@dataclass(frozen=True)
class _Jobs:
    """The custom resource's handler, the watcher and the state machine that calls it."""

    handler: Handler
    watcher: Handler
    state_machine_arn: str

    def permit(self, kinds: Sequence[str]) -> None:
        """Let them create, look at and stop jobs of those kinds."""
        self.handler.permit([_manage_statement(kind) for kind in kinds])
        self.watcher.permit([_describe_statement("WatchJobs", kind) for kind in kinds])


class OptimizationService(Construct):
    """Handlers, watcher and state machine of a stack. Use :meth:`of`."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self._execution_role: ExecutionRole | None = None
        self._job_role: ExecutionRole | None = None
        code = s3_assets.Asset(
            self,
            "Code",
            path=str(_PACKAGE),
            exclude=["/*", "!/runtime", "__pycache__", "*.pyc"],
            ignore_mode=IgnoreMode.GIT,
        )
        self.code: Mapping[str, str] = {"S3Bucket": code.s3_bucket_name, "S3Key": code.s3_object_key}
        self._jobs: _Jobs | None = None
        self._models: Handler | None = None
        self._artifacts: Handler | None = None
        self._capacity: Handler | None = None
        self._training_code: TrainingCode | None = None
        self.service_timeout_seconds = ANSWER_SECONDS

    @property
    def execution_role(self) -> ExecutionRole:
        """What SageMaker assumes for models, created on first use: a stack of jobs has none."""
        if self._execution_role is None:
            self._execution_role = ExecutionRole(
                self, "ExecutionRole", description="What SageMaker may do for models and endpoints"
            )
        return self._execution_role

    @property
    def job_role(self) -> ExecutionRole:
        """What SageMaker assumes for jobs, created on first use: a stack that only refers to artifacts has none."""
        if self._job_role is None:
            self._job_role = ExecutionRole(
                self, "JobRole", description="What SageMaker may do for optimization and training jobs"
            )
        return self._job_role

    @property
    def training_code(self) -> TrainingCode:
        """What runs in training containers, as an asset, created on first use."""
        if self._training_code is None:
            self._training_code = TrainingCode(self, "TrainingCode")
        return self._training_code

    @property
    def jobs(self) -> _Jobs:
        """What carries out jobs, created on first use: a stack that only refers to artifacts has none of it."""
        return self._jobs_of(())

    def _jobs_of(self, kinds: Sequence[str]) -> _Jobs:
        """The same, allowed to carry out jobs of those kinds."""
        if self._jobs is None:
            self._jobs = self._carrying_out_jobs(kinds)
        else:
            self._jobs.permit(kinds)
        return self._jobs

    def _carrying_out_jobs(self, kinds: Sequence[str]) -> _Jobs:
        watcher = Handler(
            self,
            "Watcher",
            code=self.code,
            entry_point="runtime.handlers.job_watcher.handler",
            description="Looks at a running optimization job",
            statements=[_describe_statement("WatchJobs", kind) for kind in kinds],
        )
        state_machine = watching_state_machine(self, watcher, watches="optimization job")
        handler = Handler(
            self,
            "Handler",
            code=self.code,
            entry_point="runtime.handlers.job_handler.handler",
            description="Starts, shares and stops optimization jobs",
            answers_cloudformation=True,
            statements=[
                *(_manage_statement(kind) for kind in kinds),
                Statement("WatchJobs", ("states:StartExecution",), (state_machine.ref,)),
                Statement(
                    "FindStacks",
                    ("cloudformation:DescribeStacks",),
                    (sub("arn:${AWS::Partition}:cloudformation:${AWS::Region}:${AWS::AccountId}:stack/*"),),
                    wildcard="which stacks share the store is known only when the stack is deployed",
                ),
            ],
        )
        return _Jobs(handler, watcher, state_machine.ref)

    @staticmethod
    def of(scope: Construct) -> OptimizationService:
        """The service of ``scope``'s stack, created on first use."""
        return facts_of(scope).child(_ID, OptimizationService, OptimizationService)

    def log_group_names(self, *, of_references: bool) -> tuple[str, ...]:
        """Where the handlers log that make artifacts, or those that refer to artifacts by key (tokens)."""
        if of_references:
            return (self._artifacts.log_group_name,) if self._artifacts is not None else ()
        return self.jobs.handler.log_group_name, self.jobs.watcher.log_group_name

    def permit(self, plan: Plan, store: IArtifactStore, *, role_arn: Arn) -> None:
        """Let the handlers carry out ``plan``: look its sources up, pass the job its role, use the store."""
        artifacts = record_keeping_statements(store)
        jobs = self._jobs_of(sorted({job.kind for job in plan.jobs}))
        jobs.handler.permit(
            [
                *_lookups(plan.job_sources),
                *artifacts,
                *owner_statements(store),
                pass_role_statement("PassExecutionRole", role_arn),
            ]
        )
        jobs.watcher.permit(artifacts)

    def artifact_service_token(self, store: IArtifactStore, plan: Plan) -> str:
        """The handler of references to artifacts by key, allowed to look into ``store`` and keep its references."""
        if self._artifacts is None:
            self._artifacts = Handler(
                self,
                "Artifacts",
                code=self.code,
                entry_point="runtime.handlers.artifact_handler.handler",
                description="Finds artifacts by their keys and keeps the references to them",
                answers_cloudformation=True,
                statements=[_describe_statement("DescribeJobs", plan.jobs[-1].kind)],
            )
        self._artifacts.permit([_describe_statement("DescribeJobs", plan.jobs[-1].kind)])
        self._artifacts.permit([*reader_statements(store), *owner_statements(store)])
        return self._artifacts.arn

    def model_service_token(self, plan: Plan, *, role_arn: Arn) -> str:
        """The handler of models that CloudFormation has no properties for, allowed to make those of ``plan``."""
        if self._models is None:
            self._models = Handler(
                self,
                "Models",
                code=self.code,
                entry_point="runtime.handlers.model_handler.handler",
                description="Creates and deletes models with files beside them",
                answers_cloudformation=True,
                statements=[
                    Statement(
                        "ManageModels",
                        (
                            "sagemaker:AddTags",
                            "sagemaker:CreateModel",
                            "sagemaker:DeleteModel",
                            "sagemaker:DeleteTags",
                            "sagemaker:DescribeModel",
                            "sagemaker:ListTags",
                        ),
                        (sub(_MODELS_ARN),),
                        wildcard="a model's name follows from what it serves, known when the stack is deployed",
                    )
                ],
            )
        container = plan.container
        sources = [container.model, *(channel.source for channel in container.channels)]
        named = [source for source in sources if not isinstance(source, ArtifactSource)]
        self._models.permit([*_lookups(named), pass_role_statement("PassExecutionRole", role_arn)])
        return self._models.arn

    @property
    def capacity_service_token(self) -> str:
        """The handler that looks up how many copies inference components of the stack have."""
        if self._capacity is None:
            self._capacity = Handler(
                self,
                "Capacity",
                code=self.code,
                entry_point="runtime.handlers.capacity_handler.handler",
                description="Looks up how many copies inference components have",
                answers_cloudformation=True,
                statements=[],
            )
            self._capacity.permit(
                [
                    Statement("FindComponents", ("cloudformation:DescribeStackResource",), ({"Ref": "AWS::StackId"},)),
                    Statement(
                        "DescribeComponents",
                        ("sagemaker:DescribeInferenceComponent",),
                        (sub(_COMPONENTS_ARN),),
                        wildcard="CloudFormation makes a component's name up when the stack is deployed",
                    ),
                ]
            )
        return self._capacity.arn


def _manage_statement(kind: str) -> Statement:
    return Statement(
        _of_kind("ManageJobs", kind),
        ("sagemaker:AddTags", *(f"sagemaker:{verb}{kind}" for verb in ("Create", "Describe", "Stop"))),
        (sub(_JOB_ARNS[kind]),),
        wildcard=_JOB_NAMES,
    )


def _describe_statement(sid: str, kind: str) -> Statement:
    return Statement(_of_kind(sid, kind), (f"sagemaker:Describe{kind}",), (sub(_JOB_ARNS[kind]),), wildcard=_JOB_NAMES)


def _of_kind(sid: str, kind: str) -> str:
    """An id of each kind's own, for statements of one id are merged."""
    return sid if kind == "OptimizationJob" else sid.replace("Jobs", f"{kind}s")


def _lookups(sources: Sequence[HubSource | HubDraftSource | S3Source]) -> list[Statement]:
    return [statement for source in sources for statement in model_source.lookup_statements(source)]

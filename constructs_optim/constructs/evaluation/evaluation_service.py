"""What runs evaluations, once a stack: the custom resource's handler, the watcher, a state machine and roles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.artifact_store import IArtifactStore
from constructs_optim.constructs.artifacts.execution_role import (
    READ_WRITE,
    ExecutionRole,
    folder_statements,
    list_statement,
    locate_statement,
    running_statements,
)
from constructs_optim.constructs.artifacts.model_source import object_arn
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.stack.job_runner import JobRunner
from constructs_optim.constructs.stack.permissions import (
    INVOKE_ACTIONS,
    NO_RESOURCES,
    Arn,
    PolicyBuilder,
    Statement,
    document,
    pass_role_statement,
    sub,
    trust_policy,
)
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.recipe.evaluation import QualityRequirement, Workload
from constructs_optim.recipe.metrics import EVALUATION_NAMESPACE

from .benchmark_jobs import passing_statement, training_statements, workload_config, workload_hash, workload_statements

_ID = "EvaluationService"
_JOB_NAMES = "a benchmark job's name follows from what is served, which is known only when the stack is deployed"
_JOBS_ARN = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:${AWS::AccountId}:ai-benchmark-job/optim-*"
_FOLDER = "evaluations"
_SCHEDULES_ARN = "arn:${AWS::Partition}:scheduler:${AWS::Region}:${AWS::AccountId}:schedule-group/default"


class EvaluationService(Construct):
    """Handler, watcher, state machine and roles of a stack's evaluations. Use :meth:`of`."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.role: ExecutionRole = ExecutionRole(self, "Role", description="What SageMaker may do for benchmark jobs")
        run = [
            Statement(
                "RunBenchmarks",
                (
                    "sagemaker:AddTags",
                    "sagemaker:CreateAIBenchmarkJob",
                    "sagemaker:DescribeAIBenchmarkJob",
                    "sagemaker:StopAIBenchmarkJob",
                ),
                (sub(_JOBS_ARN),),
                wildcard=_JOB_NAMES,
            ),
            Statement(
                "PublishMetrics",
                ("cloudwatch:PutMetricData",),
                ("*",),
                {"StringEquals": {"cloudwatch:namespace": EVALUATION_NAMESPACE}},
                wildcard=f"{NO_RESOURCES}; a condition holds it to one namespace",
            ),
            Statement("LookUpPrices", ("pricing:GetProducts",), ("*",), wildcard=NO_RESOURCES),
            pass_role_statement("PassRole", self.role.role_arn),
        ]
        stop = Statement(
            "StopBenchmarks",
            ("sagemaker:DescribeAIBenchmarkJob", "sagemaker:StopAIBenchmarkJob"),
            (sub(_JOBS_ARN),),
            wildcard=_JOB_NAMES,
        )
        self._jobs = JobRunner(
            self,
            "evaluation",
            code=OptimizationService.of(scope).code,
            job="evaluation",
            handler=("Starts evaluations of endpoints, and stops them", [stop]),
            watcher=("Runs benchmarks of endpoints, reads and publishes what they measured", run),
        )
        # A role does not exist yet when its own inline policy is written. What evaluates starts this state machine, and
        # so has a role that may pass itself on.
        self._jobs.state_machine.add_resource_dependency(self._let_pass_itself())
        self.state_machine_arn: str = self._jobs.state_machine_arn
        self.service_token: str = self._jobs.handler.arn
        self._workloads: dict[str, sagemaker.CfnAIWorkloadConfig] = {}

    def _let_pass_itself(self) -> iam.CfnPolicy:
        return iam.CfnPolicy(
            self.role,
            "PassItself",
            policy_document=document([passing_statement(self.role.role_arn)]),
            policy_name="PassItself",
            roles=[self.role.role_name],
        )

    @staticmethod
    def of(scope: Construct) -> EvaluationService:
        """The service of ``scope``'s stack, created on first use."""
        return StackContext.of(scope).singleton(EvaluationService, lambda stack: EvaluationService(stack, _ID))

    @cached_property
    def schedule_role_arn(self) -> str:
        """The role by which EventBridge Scheduler starts evaluations."""
        role = iam.CfnRole(
            self,
            "ScheduleRole",
            assume_role_policy_document=trust_policy("scheduler.amazonaws.com", source_arn=sub(_SCHEDULES_ARN)),
            description="Starts evaluations on a schedule",
        )
        policy = PolicyBuilder()
        policy.add([Statement("StartEvaluations", ("states:StartExecution",), (self.state_machine_arn,))])
        policy.apply(role)
        return role.attr_arn

    def workload_config(self, workload: Workload) -> sagemaker.CfnAIWorkloadConfig:
        """The configuration of ``workload``: one, however many endpoints of the stack are sent the same."""
        digits = workload_hash(self, workload)
        if digits not in self._workloads:
            self._workloads[digits] = workload_config(self, workload, f"Workload{digits}")
        return self._workloads[digits]

    def permit(
        self,
        *,
        endpoint_arn: Arn,
        component_arn: Arn | None,
        workload_config_arn: Arn,
        workload: Workload,
        store: IArtifactStore,
        in_vpc: bool,
    ) -> None:
        """Let a benchmark send ``workload`` to an endpoint, and handler and watcher keep its results."""
        targets = (endpoint_arn, *((component_arn,) if component_arn is not None else ()))
        self.role.permit(
            [
                Statement("SendRequests", INVOKE_ACTIONS, targets),
                *_describing(endpoint_arn, component_arn),
                *training_statements(),
                *workload_statements(workload),
                *_result_statements(store, ("s3:AbortMultipartUpload", *READ_WRITE)),
                locate_statement(store),
                *running_statements(in_vpc=in_vpc),
            ]
        )
        results = _result_statements(store, READ_WRITE)
        self._jobs.handler.permit(results)
        self._jobs.watcher.permit(
            [
                *results,
                *_describing(endpoint_arn, component_arn),
                Statement("UseWorkloads", ("sagemaker:CreateAIBenchmarkJob",), (workload_config_arn,)),
            ]
        )

    def permit_prompts(self, *, endpoint_arn: Arn, component_arn: Arn | None, quality: QualityRequirement) -> None:
        """Let the watcher ask an endpoint the prompts of a quality gate."""
        targets = (endpoint_arn, *((component_arn,) if component_arn is not None else ()))
        self._jobs.watcher.permit(
            [
                Statement("AskPrompts", ("sagemaker:InvokeEndpoint",), targets),
                Statement("ReadPrompts", ("s3:GetObject",), (object_arn(quality.prompts),)),
            ]
        )


def _describing(endpoint_arn: Arn, component_arn: Arn | None) -> Sequence[Statement]:
    statements = [Statement("DescribeEndpoints", ("sagemaker:DescribeEndpoint",), (endpoint_arn,))]
    if component_arn is not None:
        statements.append(Statement("DescribeComponents", ("sagemaker:DescribeInferenceComponent",), (component_arn,)))
    return statements


def _result_statements(store: IArtifactStore, actions: tuple[str, ...]) -> Sequence[Statement]:
    reason = "an evaluation's key follows from what is served, which is known only when the stack is deployed"
    return [
        *folder_statements(store, "Evaluations", _FOLDER, actions, wildcard=reason, key_sid="EncryptEvaluations"),
        list_statement(store, "ListEvaluations", _FOLDER),
    ]

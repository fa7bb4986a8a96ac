"""What runs evaluations, once a stack: the custom resource's handler, the watcher, a state machine and roles."""

from __future__ import annotations

from functools import cached_property

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.artifacts.roles import ExecutionRole
from constructs_optim.constructs.stack.job_runner import MANAGE, JobRunner, job_statement
from constructs_optim.constructs.stack.permissions import (
    NO_RESOURCES,
    PolicyBuilder,
    Statement,
    document,
    pass_role_statement,
    statements_of,
    sub,
    trust_policy,
)
from constructs_optim.constructs.stack.stack_context import StackContext
from constructs_optim.recipe.evaluation import Workload
from constructs_optim.recipe.metrics import EVALUATION_NAMESPACE

from .benchmark_jobs import workload_config, workload_hash

_SCHEDULES_ARN = "arn:${AWS::Partition}:scheduler:${AWS::Region}:${AWS::AccountId}:schedule-group/default"


class EvaluationService(Construct):
    """Handler, watcher, state machine and roles of a stack's evaluations. Use :meth:`of`."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.role: ExecutionRole = ExecutionRole(self, "Role", description="What SageMaker may do for benchmark jobs")
        run = [
            job_statement("RunBenchmarks", "AIBenchmarkJob", *MANAGE),
            Statement(
                "PublishMetrics",
                ("cloudwatch:PutMetricData",),
                ("*",),
                {"StringEquals": {"cloudwatch:namespace": EVALUATION_NAMESPACE}},
                wildcard=f"{NO_RESOURCES}; a condition holds it to one namespace",
            ),
            *statements_of("look up prices"),
            pass_role_statement("PassRole", self.role.role_arn),
        ]
        self.jobs: JobRunner = JobRunner(
            self,
            "evaluation",
            code=OptimizationService.of(scope).code,
            job="evaluation",
            handler=(
                "Starts evaluations of endpoints, and stops them",
                [job_statement("StopBenchmarks", "AIBenchmarkJob", "Describe", "Stop")],
            ),
            watcher=("Runs benchmarks of endpoints, reads and publishes what they measured", run),
        )
        # A role does not exist yet when its own inline policy is written. What evaluates starts this state machine, and
        # so has a role that may pass itself on.
        passes_itself = iam.CfnPolicy(
            self.role,
            "PassItself",
            policy_document=document([pass_role_statement("PassItself", self.role.role_arn)]),
            policy_name="PassItself",
            roles=[self.role.role_name],
        )
        self.jobs.state_machine.add_resource_dependency(passes_itself)
        self._workloads: dict[str, sagemaker.CfnAIWorkloadConfig] = {}

    @staticmethod
    def of(scope: Construct) -> EvaluationService:
        """The service of ``scope``'s stack, created on first use."""
        return StackContext.of(scope).singleton(
            EvaluationService, lambda stack: EvaluationService(stack, "EvaluationService")
        )

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
        policy.add([Statement("StartEvaluations", ("states:StartExecution",), (self.jobs.state_machine.ref,))])
        policy.apply(role)
        return role.attr_arn

    def workload_config(self, workload: Workload) -> sagemaker.CfnAIWorkloadConfig:
        """The configuration of ``workload``: one, however many endpoints of the stack are sent the same."""
        digits = workload_hash(self, workload)
        if digits not in self._workloads:
            self._workloads[digits] = workload_config(self, workload, f"Workload{digits}")
        return self._workloads[digits]

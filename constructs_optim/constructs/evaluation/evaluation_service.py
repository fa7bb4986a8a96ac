"""The service that runs a stack's evaluations, and the workloads of benchmark and recommendation jobs."""

from __future__ import annotations

import json
from functools import cached_property

from aws_cdk import Fn
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.model_source import channel_statements, secret_statement
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.artifacts.roles import ExecutionRole
from constructs_optim.constructs.stack.handler import MANAGE, JobRunner, job_statement
from constructs_optim.constructs.stack.permissions import (
    NO_RESOURCES,
    ServiceRole,
    Statement,
    document,
    pass_role_statement,
    statements_of,
)
from constructs_optim.constructs.stack.stack_context import StackContext, path_of
from constructs_optim.recipe.evaluation import Workload
from constructs_optim.recipe.evaluation.workload import CHANNEL
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.metrics import EVALUATION_NAMESPACE

_NAME_DIGITS = 16


class EvaluationService(Construct):
    """The handler, watcher, state machine and roles of a stack's evaluations. Use ``of``."""

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
                wildcard=f"{NO_RESOURCES}; a condition restricts it to one namespace",
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
                "Starts and stops evaluations of endpoints",
                [job_statement("StopBenchmarks", "AIBenchmarkJob", "Describe", "Stop")],
            ),
            watcher=("Runs benchmarks of endpoints, and publishes their results", run),
        )
        # A role's inline policy cannot refer to the role itself. The state machine depends on this separate policy, so
        # the role may pass itself before any evaluation starts.
        passes_itself = iam.CfnPolicy(
            self.role,
            "PassItself",
            policy_document=document([pass_role_statement("PassItself", self.role.role_arn)]),
            policy_name="PassItself",
            roles=[self.role.role_name],
        )
        self.jobs.state_machine.add_resource_dependency(passes_itself)

    @staticmethod
    def of(scope: Construct) -> EvaluationService:
        """Return the service of ``scope``'s stack, created on first use."""
        context = StackContext.of(scope)
        return context.once(EvaluationService, lambda: EvaluationService(context.stack, "EvaluationService"))

    @cached_property
    def schedule_role_arn(self) -> str:
        """The role that EventBridge Scheduler assumes to start evaluations."""
        return ServiceRole(
            self,
            "ScheduleRole",
            "scheduler.amazonaws.com",
            source_arn="arn:${AWS::Partition}:scheduler:${AWS::Region}:${AWS::AccountId}:schedule-group/default",
            description="Starts evaluations on a schedule",
            statements=[Statement("StartEvaluations", ("states:StartExecution",), (self.jobs.state_machine.ref,))],
        ).arn

    def workload_config(self, workload: Workload) -> sagemaker.CfnAIWorkloadConfig:
        """Return the configuration of ``workload``, shared by the stack's endpoints with the same workload."""
        context = StackContext.of(self)
        sent = context.stack.resolve([workload.spec, workload.prompts or ""])
        workload_id = f"Workload{sha256(json.dumps(sent, sort_keys=True))[:_NAME_DIGITS]}"
        return context.once((Workload, workload_id), lambda: workload_config(self, workload, workload_id))


def workload_config(scope: Construct, workload: Workload, id: str = "Workload") -> sagemaker.CfnAIWorkloadConfig:
    """Declare ``workload`` below ``scope``; an ID other than the default becomes part of the name."""
    context, inline, prompts = StackContext.of(scope), workload.spec, workload.prompts
    spec = context.stack.resolve(inline)
    # A changed configuration gets another name, so it neither updates the existing one nor conflicts with it.
    content = [path_of(scope), spec, *([id] if id != "Workload" else [])]
    name = sha256(json.dumps(content, sort_keys=True))[:_NAME_DIGITS]
    stack_digits = Fn.join("", Fn.split("-", context.uuid, 5))
    text = json.dumps(inline) if spec == inline else context.stack.to_json_string(inline)
    data = {"channelName": CHANNEL, "dataSource": {"s3DataSource": {"s3Uri": prompts}}}
    return sagemaker.CfnAIWorkloadConfig(
        scope,
        id,
        # Only lowercase letters and digits: with other names, a configuration can be created but never deleted
        # (CloudFormation reference, AWS::SageMaker::AIWorkloadConfig).
        ai_workload_config_name=f"optim{name}{stack_digits}",
        ai_workload_configs={"workloadSpec": {"inline": text}},
        dataset_config={"inputDataConfig": [data]} if prompts is not None else None,
    )


def workload_config_name(config: sagemaker.CfnAIWorkloadConfig) -> str:
    """Return the name of the configuration in job requests (a token)."""
    return Fn.select(1, Fn.split("/", config.ref))


def workload_statements(workload: Workload) -> list[Statement]:
    """Return a job role's permissions for ``workload``: its prompts, and the secret with the tokenizer's token."""
    statements = channel_statements(workload.prompts) if workload.prompts is not None else []
    if workload.token_secret_arn is not None:
        statements.append(secret_statement("ReadToken", workload.token_secret_arn))
    return statements

"""The service that runs a stack's evaluations, and the workload of benchmark and recommendation jobs."""

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
        # A role does not exist yet when its own inline policy is written. The state machine depends on this policy, and
        # every evaluation starts the state machine, so the role may pass itself by then.
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
        """The service of ``scope``'s stack, created on first use."""
        context = StackContext.of(scope)
        return context.once(EvaluationService, lambda: EvaluationService(context.stack, "EvaluationService"))

    @cached_property
    def schedule_role_arn(self) -> str:
        """The role by which EventBridge Scheduler starts evaluations."""
        return ServiceRole(
            self,
            "ScheduleRole",
            "scheduler.amazonaws.com",
            source_arn="arn:${AWS::Partition}:scheduler:${AWS::Region}:${AWS::AccountId}:schedule-group/default",
            description="Starts evaluations on a schedule",
            statements=[Statement("StartEvaluations", ("states:StartExecution",), (self.jobs.state_machine.ref,))],
        ).arn

    def workload_config(self, workload: Workload) -> sagemaker.CfnAIWorkloadConfig:
        """The configuration of ``workload``, which all endpoints of the stack with the same workload share."""
        context = StackContext.of(self)
        sent = context.stack.resolve([workload.spec, workload.prompts or ""])
        workload_id = f"Workload{sha256(json.dumps(sent, sort_keys=True))[:_NAME_DIGITS]}"
        return context.once((Workload, workload_id), lambda: workload_config(self, workload, workload_id))


def workload_config(scope: Construct, workload: Workload, id: str = "Workload") -> sagemaker.CfnAIWorkloadConfig:
    """Declare ``workload`` below ``scope``; an id other than the default is part of the name."""
    context, inline, prompts = StackContext.of(scope), workload.spec, workload.prompts
    spec = context.stack.resolve(inline)
    # A changed configuration has another name: the existing one is neither updated nor in conflict.
    content = [path_of(scope), spec, *([id] if id != "Workload" else [])]
    name = sha256(json.dumps(content, sort_keys=True))[:_NAME_DIGITS]
    stack_digits = Fn.join("", Fn.split("-", context.uuid, 5))
    text = json.dumps(inline) if spec == inline else context.stack.to_json_string(inline)
    data = {"channelName": CHANNEL, "dataSource": {"s3DataSource": {"s3Uri": prompts}}}
    return sagemaker.CfnAIWorkloadConfig(
        scope,
        id,
        # Letters and digits alone, in lower case: a configuration of another name can be created and never deleted
        # (CloudFormation reference, AWS::SageMaker::AIWorkloadConfig).
        ai_workload_config_name=f"optim{name}{stack_digits}",
        ai_workload_configs={"workloadSpec": {"inline": text}},
        dataset_config={"inputDataConfig": [data]} if prompts is not None else None,
    )


def workload_config_name(config: sagemaker.CfnAIWorkloadConfig) -> str:
    """The name that jobs know the configuration by (a token)."""
    return Fn.select(1, Fn.split("/", config.ref))


def workload_statements(workload: Workload) -> list[Statement]:
    """The permissions of a job's role for ``workload``: its prompts, and the secret with the tokenizer's token."""
    statements = channel_statements(workload.prompts) if workload.prompts is not None else []
    if workload.token_secret_arn is not None:
        statements.append(secret_statement("ReadToken", workload.token_secret_arn))
    return statements

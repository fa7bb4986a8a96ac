"""Restarts of an endpoint's instances when the alarm on decaying acceptance of drafts goes into ALARM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.artifact_store import IArtifactStore
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.event_rule import rule_role, start_on_event
from constructs_optim.constructs.stack.handler import Handler, watching_machine
from constructs_optim.constructs.stack.permissions import statements_of
from constructs_optim.constructs.stack.stack_context import PSEUDO, StackContext

_ALARM_EVENT = "CloudWatch Alarm State Change"


@dataclass(frozen=True)
class RestartedEndpoint:
    """An endpoint that alternates between two identical configurations; the store records the last restart.

    ``configs`` maps the configurations' names to their ARNs.
    """

    endpoint: sagemaker.CfnEndpoint
    endpoint_name: str
    configs: Mapping[str, str]
    store: IArtifactStore


class RestartService(Construct):
    """The watcher and state machine of a stack's restarts. Use ``of``."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.watcher: Handler = Handler(
            self,
            "Watcher",
            code=OptimizationService.of(scope).code,
            module="restart_watcher",
            description="Restarts instances when the acceptance of drafts decays",
            responds_to_cloudformation=False,
        )
        self.state_machine = watching_machine(self, self.watcher, "restart")
        self.role = rule_role(
            self, self.state_machine, sid="StartRestarts", description="Starts restarts when alarms go into ALARM"
        )

    @staticmethod
    def of(scope: Construct) -> RestartService:
        """Return the service of ``scope``'s stack, created on first use."""
        context = StackContext.of(scope)
        return context.once(RestartService, lambda: RestartService(context.stack, "RestartService"))


class SpeculationRestart(Construct):
    """The rule that starts a restart; use ``MonitoringOptions(speculation_cure=SpeculationCure.restart())``."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        restarted: RestartedEndpoint,
        alarm: cloudwatch.CfnAlarm,
        at_most_every_seconds: int,
    ) -> None:
        """Declare the rule, and let the watcher update this endpoint."""
        super().__init__(scope, id)
        service, store, name = RestartService.of(scope), restarted.store, restarted.endpoint_name
        request = drop_none(
            EndpointName=name,
            ConfigNames=list(restarted.configs),
            AlarmName=alarm.ref,
            AtMostEverySeconds=at_most_every_seconds,
            StackId=PSEUDO.stack_id,
            Bucket=store.bucket_name,
            KmsKeyArn=store.encryption_key_arn,
        )
        start_on_event(
            self,
            description="Restarts instances when the acceptance of drafts decays",
            pattern={
                "source": ["aws.cloudwatch"],
                "detail-type": [_ALARM_EVENT],
                "resources": [alarm.attr_arn],
                "detail": {"state": {"value": ["ALARM"]}},
            },
            state_machine=service.state_machine,
            role=service.role,
            target="Restart",
            document={"Request": request},
        )
        service.watcher.permit(
            [
                *statements_of(
                    "keep restarts",
                    Store=store.bucket_arn,
                    Key=store.encryption_key_arn,
                    Record=f"{store.bucket_arn}/restarts/{PSEUDO.account}/{PSEUDO.region}/{name}.json",
                ),
                *statements_of(
                    "restart an endpoint",
                    Endpoint=restarted.endpoint.ref,
                    Configs=tuple(restarted.configs.values()),
                    Alarm=alarm.attr_arn,
                    Stack=PSEUDO.stack_id,
                ),
            ]
        )

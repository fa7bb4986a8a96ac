"""Shadow runs: a candidate answers copies of an endpoint's requests, and the answers are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aws_cdk import CfnResource
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim.constructs.artifacts.artifact_store import IArtifactStore, store_statements
from constructs_optim.constructs.artifacts.model_source import S3Location
from constructs_optim.constructs.artifacts.optimization_service import OptimizationService
from constructs_optim.constructs.stack.arguments import suggests_keywords
from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.event_rule import rule_role, start_on_event
from constructs_optim.constructs.stack.handler import JobRunner
from constructs_optim.constructs.stack.permissions import ServiceRole, statements_of
from constructs_optim.constructs.stack.stack_context import PSEUDO, StackContext
from constructs_optim.recipe import Model
from constructs_optim.recipe.hosting.shadow import SHADOW_VARIANT, Shadow
from constructs_optim.recipe.servers import ServerSettings
from constructs_optim.recipe.settings import methods_suggest_keywords
from constructs_optim.recipe.techniques import Technique
from constructs_optim.templates.resource_types import SHADOW_RUN

from .endpoint_evaluation import EvaluatedSubject

if TYPE_CHECKING:
    from aws_cdk import aws_s3 as s3
    from aws_cdk import aws_sns as sns


@suggests_keywords
@dataclass(frozen=True)
class ShadowCandidate:
    """A candidate to replace an endpoint's model: the same model with other techniques, or another model.

    Attributes:
        techniques: the techniques to apply, in order. Default: none.
        model: the source of the weights. Default: the endpoint's.
        instance_type: the candidate's instance type. Default: the endpoint's.
        instance_count: the number of the candidate's instances. Default: 1.
        server: the model server. Default: the endpoint's.
        environment: additional environment variables of the container. Default: the endpoint's.
        artifact_key: the key of an existing artifact, as for ``OptimizedEndpoint``. Default: jobs create the
            artifacts that are missing from the store.
    """

    techniques: Sequence[Technique] = ()
    model: Model | None = None
    instance_type: str | None = None
    instance_count: int = 1
    server: ServerSettings | None = None
    environment: Mapping[str, str] | None = None
    artifact_key: str | None = None


@dataclass(frozen=True)
class ShadowedEndpoint:
    """The endpoint of a shadow, with its configurations for the run, its end, and a promotion."""

    label: str
    endpoint: sagemaker.CfnEndpoint
    served: CfnResource | None
    endpoint_name: str
    variant_name: str
    shadow: sagemaker.CfnEndpointConfig
    ended: sagemaker.CfnEndpointConfig
    promoted: sagemaker.CfnEndpointConfig | None
    config_arns: Sequence[str]
    volume_key: str | None
    production: EvaluatedSubject
    candidate: EvaluatedSubject
    capture_bucket: s3.IBucket
    capture_prefix: str
    capture_keys: tuple[str, ...]
    store: IArtifactStore


class ShadowService(Construct):
    """The handler, watcher and state machine of a stack's shadows. Use ``of``."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.jobs: JobRunner = JobRunner(
            self,
            "shadow",
            code=OptimizationService.of(scope).code,
            job="shadow",
            handler=("Starts and cancels shadow runs", []),
            watcher=("Compares the answers of shadows and production, and ends shadows", []),
        )
        self.role: ServiceRole = rule_role(
            self, self.jobs.state_machine, sid="StartShadows", description="Starts the removal of restored shadows"
        )

    @staticmethod
    def of(scope: Construct) -> ShadowService:
        """Return the service of ``scope``'s stack, created on first use."""
        context = StackContext.of(scope)
        return context.once(ShadowService, lambda: ShadowService(context.stack, "ShadowService"))


@methods_suggest_keywords
class ShadowRun(Construct):
    """The run of a shadow; use ``OptimizedEndpoint.shadow``."""

    def __init__(
        self, scope: Construct, id: str, *, shadowed: ShadowedEndpoint, settings: Shadow, topic: sns.ITopic | None
    ) -> None:
        """Declare the run, which starts when the endpoint has the shadow variant."""
        super().__init__(scope, id)
        self.settings: Shadow = settings
        service = ShadowService.of(scope)
        request = self._request(shadowed, settings, topic)
        self._permit(service, shadowed, topic)
        self._resource = CfnResource(
            self, "Resource", type=SHADOW_RUN, properties={**service.jobs.properties, "Request": request}
        )
        # The run may update the endpoint to another configuration soon after.
        self._resource.add_resource_dependency(shadowed.served or shadowed.endpoint)
        # CloudFormation restores the shadow with the endpoint's next update, even if nothing in this run changes.
        start_on_event(
            self,
            description="Removes completed shadows that a deployment restored",
            pattern={
                "source": ["aws.sagemaker"],
                "detail-type": ["SageMaker Endpoint State Change"],
                "resources": [shadowed.endpoint.ref],
                "detail": {"EndpointStatus": ["IN_SERVICE"]},
            },
            state_machine=service.jobs.state_machine,
            role=service.role,
            target="Shadow",
            document={"Request": request, "StackId": PSEUDO.stack_id},
        )
        for config in (shadowed.ended, shadowed.promoted):
            if config is not None:
                # The endpoint may use it when the stack is deleted, so CloudFormation must delete it after the
                # endpoint.
                shadowed.endpoint.add_resource_dependency(config)

    @property
    def announced_pairs(self) -> int:
        """The number of independent pairs that detects a candidate worse by the margin with a probability of 80%.

        It assumes that 10% of the pairs differ; the report has the number for the actual share. A prompt counts
        once, however often it is sent, and pairs that depend on each other, such as the turns of a conversation, show
        less than their number.
        """
        return self.settings.announced_pairs or 0

    @property
    def shadow_key(self) -> str:
        """The shadow's key in the store, ``shadows/<key>/`` (a token)."""
        return self._resource.ref

    @property
    def report_uri(self) -> str:
        """The S3 URI of the report, a JSON document (a token)."""
        return self._resource.get_att("ReportUri").to_string()

    def _request(self, shadowed: ShadowedEndpoint, settings: Shadow, topic: sns.ITopic | None) -> dict[str, Any]:
        promoted, bucket = shadowed.promoted, shadowed.capture_bucket
        return drop_none(
            Label=shadowed.label,
            EndpointName=shadowed.endpoint_name,
            ShadowConfigName=shadowed.shadow.attr_endpoint_config_name,
            EndedConfigName=shadowed.ended.attr_endpoint_config_name,
            PromotedConfigName=promoted.attr_endpoint_config_name if promoted is not None else None,
            Production=_compared(shadowed.variant_name, shadowed.production),
            Candidate=_compared(SHADOW_VARIANT, shadowed.candidate),
            Captures=f"s3://{bucket.bucket_name}/{shadowed.capture_prefix}",
            SamplePercent=settings.sample_percent,
            DurationSeconds=int(settings.duration_seconds),
            Margin=settings.margin,
            LatencyTolerance=settings.latency_tolerance,
            Checks=[
                drop_none(
                    Kind=check.kind,
                    AtLeast=check.at_least,
                    Reference=check.reference_uri,
                    Judge=check.function_arn,
                )
                for check in settings.checks
            ],
            TopicArn=topic.topic_arn if topic is not None else None,
            Bucket=shadowed.store.bucket_name,
            KmsKeyArn=shadowed.store.encryption_key_arn,
        )

    def _permit(self, service: ShadowService, shadowed: ShadowedEndpoint, topic: sns.ITopic | None) -> None:
        records = store_statements(shadowed.store, "keep shadows")
        service.jobs.handler.permit(records)
        folder = f"{shadowed.capture_prefix}/{shadowed.endpoint_name}"
        references = [check.reference_uri for check in self.settings.checks if check.reference_uri is not None]
        judges = [check.function_arn for check in self.settings.checks if check.function_arn is not None]
        service.jobs.watcher.permit(
            [
                *records,
                *statements_of(
                    "compare captures",
                    Captures=f"{shadowed.capture_bucket.bucket_arn}/{folder}",
                    CaptureBucket=shadowed.capture_bucket.bucket_arn,
                    CapturePrefix=folder,
                    CaptureKeys=shadowed.capture_keys or None,
                    Endpoint=shadowed.endpoint.ref,
                    Configs=tuple(shadowed.config_arns),
                    VolumeKey=shadowed.volume_key,
                    References=tuple(S3Location(uri).object_arn for uri in references) or None,
                    Judges=tuple(judges) or None,
                    Topics=topic.topic_arn if topic is not None else None,
                    Stack=PSEUDO.stack_id,
                ),
            ]
        )


def _compared(variant_name: str, subject: EvaluatedSubject) -> dict[str, Any]:
    return {"VariantName": variant_name, "ArtifactKey": subject.key, "InstanceType": subject.instance_type}

"""The preflight of a stack: checks what its jobs, models and endpoints need before any of them starts.

A stack has a preflight unless its context disables it. ``runtime/preflight`` implements the checks; this module
declares their input, in the order of the constructs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from aws_cdk import CfnResource
from constructs import Construct

from constructs_optim.constructs.stack.container_registry import ContainerRegistry, repositories_of, sub_account
from constructs_optim.constructs.stack.custom_resource import RESPONSE_SECONDS, drop_none
from constructs_optim.constructs.stack.handler import Handler
from constructs_optim.constructs.stack.network import Network
from constructs_optim.constructs.stack.permissions import Statement, statements_of
from constructs_optim.constructs.stack.stack_context import StackContext, late_value, path_of
from constructs_optim.constructs.validation.network_ways import SECRETS_MANAGER
from constructs_optim.recipe.hosting.options import UpdateSettings
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.plan_data import (
    HUB_VARIABLE,
    TOKEN_VARIABLE,
    HuggingFaceSource,
    JobPlan,
    Plan,
    S3Source,
    Source,
)
from constructs_optim.recipe.tokens import is_token
from constructs_optim.templates.references import references
from constructs_optim.templates.resource_types import PREFLIGHT

from . import model_source
from .artifact_store import IArtifactStore, store_statements
from .optimization_service import OptimizationService
from .roles import SageMakerRole

PREFLIGHT_CONTEXT = "constructs-optim:preflight"
"""Context key: whether stacks have a preflight. Default: true."""


class EngineMetricUses:
    """The constructs of a stack that read engine metrics, which its preflight checks if it has one. Use ``of``."""

    def __init__(self) -> None:
        # Whether its function depends on them, by path in the stack.
        self._required: dict[str, bool] = {}
        self._checks: Callable[[], None] | None = None

    @staticmethod
    def of(scope: Construct) -> EngineMetricUses:
        """Return those of ``scope``'s stack."""
        return StackContext.of(scope).once(EngineMetricUses, EngineMetricUses)

    @property
    def needs(self) -> list[dict[str, Any]]:
        """The property of the stack's preflight."""
        return [drop_none(UsedBy=path, Required=needed or None) for path, needed in self._required.items()]

    def add(self, user: Construct, *, required: bool = False) -> None:
        """Add a construct; ``required`` tells whether it does not work without the metrics, as scaling on them."""
        path = path_of(user).removeprefix(f"{path_of(StackContext.of(user).stack)}/")
        self._required[path] = required or self._required.get(path, False)
        if self._checks is not None:
            self._checks()

    def check_with(self, checks: Callable[[], None]) -> None:
        """Call a function as soon as there is a construct."""
        self._checks = checks
        if self._required:
            checks()


class Preflight(Construct):
    """The preflight of a stack; all jobs, models and endpoints wait for it. Use ``of``."""

    def __init__(self, service: OptimizationService) -> None:
        super().__init__(service, "Preflight")
        self._handler = Handler(
            self,
            "Handler",
            code=service.code,
            module="preflight_handler",
            description="Checks quotas, models, images and permissions before anything starts",
        )
        self._handler.permit(statements_of("see deployment", Stack={"Ref": "AWS::StackId"}))
        self._needs: dict[str, list[dict[str, Any]]] = {}
        self._images: dict[str, None] = {}
        self._optimization_jobs: list[str] = []
        uses = EngineMetricUses.of(self)
        lists: Any = {name: late_value(lambda name=name: self._needs.get(name)) for name in _LISTS}
        self._resource = CfnResource(
            self,
            "Resource",
            type=PREFLIGHT,
            properties={
                "ServiceToken": self._handler.arn,
                "ServiceTimeout": RESPONSE_SECONDS,
                **lists,
                "Images": late_value(lambda: list(self._images) or None),
                "OptimizationJobs": late_value(lambda: self._optimization_jobs or None),
                "EngineMetrics": late_value(lambda: uses.needs or None),
            },
        )
        uses.check_with(lambda: self._handler.permit(statements_of("preflight engine metrics")))

    @staticmethod
    def of(scope: Construct) -> Preflight | None:
        """Return the preflight of ``scope``'s stack; None if its context disables it.

        Raises:
            ValueError: if the context key is neither true nor false.
        """
        context = StackContext.of(scope)
        asked: object = context.given(PREFLIGHT_CONTEXT)
        # The CDK's command line passes text.
        if asked not in (None, True, False, "true", "false"):
            raise ValueError(f"the context key {PREFLIGHT_CONTEXT} is {asked!r}: use true or false")
        if asked in (False, "false"):
            return None
        return context.once(Preflight, lambda: Preflight(OptimizationService.of(scope)))

    def add_job(
        self,
        resource: CfnResource,
        job: JobPlan,
        store: IArtifactStore,
        role: SageMakerRole,
        network: Network | None,
    ) -> None:
        """Make a job wait for the preflight, and check what it needs."""
        count = 1
        if job.trains:
            compute = job.request["ResourceConfig"]
            count, instance_type = compute["InstanceCount"], compute["InstanceType"]
            if "TrainingPlanArn" not in compute:
                training = drop_none(
                    Definition=job.deployment_hash,
                    ArtifactKey=job.artifact_key,
                    Bucket=store.bucket_name,
                    InstanceType=instance_type,
                    InstanceCount=count,
                    Spot=job.request.get("EnableManagedSpotTraining") or None,
                    MaxRuntimeInSeconds=job.request["StoppingCondition"]["MaxRuntimeInSeconds"],
                    VolumeSizeInGB=compute["VolumeSizeInGB"],
                )
                self._add("Trainings", training, "preflight jobs")
            else:
                self._add_reservation(compute["TrainingPlanArn"], instance_type, "training-job")
        elif plans := job.request.get("TrainingPlanArns"):
            # SageMaker chooses among the instances of the training plan.
            self._add_reservation(plans[0])
        else:
            self._optimization_jobs.append(job.deployment_hash)
        if isinstance(job.source, HuggingFaceSource):
            self._add_copy(job, job.source)
        self._add_sources([job.source])
        for read in job.reads:
            if self._is_there_before(read):
                self._add("Data", model_source.properties(read))
                self._handler.permit(model_source.lookup_statements(read))
        bucket = store.bucket_name
        writes = [f"s3://{bucket}/artifacts/preflight/model/", *([f"s3://{bucket}/checkpoints/"] if job.trains else [])]
        self._add_role(role, [job.source, *job.reads], _images_of(job), writes=writes)
        services = [SECRETS_MANAGER] if job.token is not None else []
        self._add_common(resource, store, network, count, Hosts=list(job.hosts), Services=services)

    def add_model(
        self, resource: CfnResource, plan: Plan, store: IArtifactStore, role: SageMakerRole, network: Network | None
    ) -> None:
        """Make a model wait for the preflight, and check what it needs."""
        container = plan.container
        self._add_sources(container.sources)
        reads = [f"s3://{store.bucket_name}/artifacts/"] if container.artifacts else []
        self._add_role(role, container.sources, [container.image], reads=reads)
        self._add_common(resource, store, network, 0)

    def add_fleet(
        self,
        resource: CfnResource,
        *,
        endpoint_name: str,
        instance_types: Sequence[str],
        instance_count: int,
        update: UpdateSettings,
        definition: str,
        reservation: str | None,
    ) -> None:
        """Make an endpoint wait, and check its instances' quotas; ``definition`` changes with the instances."""
        if reservation is not None:
            for instance_type in instance_types:
                self._add_reservation(reservation, instance_type, "endpoint")
        else:
            fleet: dict[str, Any] = {
                "EndpointName": endpoint_name,
                "InstanceTypes": list(instance_types),
                "InstanceCount": instance_count,
                "BatchSize": _batch(update, instance_count),
                "Definition": definition,
            }
            self._add("Fleets", fleet, "preflight endpoints")
        resource.add_resource_dependency(self._resource)

    def add_shadow(self, *, endpoint_name: str, instance_type: str, instance_count: int, definition: str) -> None:
        """Check the quota of a shadow variant's instances.

        The update that adds the variant launches all of the endpoint's instances again.
        """
        (own,) = [fleet for fleet in self._needs["Fleets"] if fleet["EndpointName"] == endpoint_name]
        own["Definition"] = sha256(f"{own['Definition']} {definition}")[:8]
        shadow: dict[str, Any] = {
            "EndpointName": endpoint_name,
            "InstanceTypes": [instance_type],
            "InstanceCount": instance_count,
            "BatchSize": instance_count,
            "Definition": definition,
        }
        self._add("Fleets", shadow, "preflight endpoints")

    def _add(self, name: str, need: dict[str, Any], group: str | None = None) -> None:
        needs = self._needs.setdefault(name, [])
        if need not in needs:
            needs.append(need)
        if group is not None:
            self._handler.permit(statements_of("preflight quotas"))
            self._handler.permit(statements_of(group))

    def _add_common(
        self,
        resource: CfnResource,
        store: IArtifactStore,
        network: Network | None,
        instance_count: int,
        **reached: list[str],
    ) -> None:
        self._add("Stores", drop_none(Bucket=store.bucket_name, KmsKeyArn=store.encryption_key_arn))
        self._handler.permit(store_statements(store, "preflight stores"))
        if network is not None and network.is_there_before:
            subnets = list(network.subnet_ids)
            known = [need for need in self._needs.setdefault("Networks", []) if need["SubnetIds"] == subnets]
            if not known:
                self._add("Networks", need := {"SubnetIds": subnets, "InstanceCount": 0})
                known = [need]
            known[0]["InstanceCount"] += instance_count
            for name, items in reached.items():
                if merged := list(dict.fromkeys([*known[0].get(name, ()), *items])):
                    known[0][name] = merged
            self._handler.permit(statements_of("preflight networks"))
        resource.add_resource_dependency(self._resource)

    def _add_sources(self, sources: Sequence[Source]) -> None:
        for source in sources:
            if isinstance(source, HuggingFaceSource) or source.kind == "artifact" or not self._is_there_before(source):
                continue
            self._add("Models", model_source.properties(source))
            self._handler.permit(model_source.lookup_statements(source))

    def _add_copy(self, job: JobPlan, source: HuggingFaceSource) -> None:
        environment = job.request.get("Environment", {})
        token, hub = environment.get(TOKEN_VARIABLE), environment.get(HUB_VARIABLE)
        pickles = job.request.get("HyperParameters", {}).get("allow_pickle") == "true"
        properties = {name: value for name, value in model_source.properties(source).items() if name != "Kind"}
        self._add("Copies", drop_none(**properties, Endpoint=hub, AllowPickle=pickles or None, TokenSecretArn=token))
        if job.token is not None:
            self._handler.permit(model_source.describe_secret_statements(job.token))

    def _add_role(
        self,
        role: SageMakerRole,
        sources: Sequence[Source],
        images: Sequence[str | None],
        *,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
    ) -> None:
        named = [image for image in images if image is not None]
        self._add_images(named)
        if not all(map(self._is_there_before, sources)):
            # The role's policy may refer to resources that wait for this preflight.
            return
        role.delay(self._resource)
        of_sources = [each.uri for each in sources if isinstance(each, S3Source)]
        additions = {"Reads": [*of_sources, *reads], "Writes": list(writes), "Images": named}
        needs = self._needs.setdefault("Roles", [])
        own: dict[str, Any] | None = next((need for need in needs if need["RoleArn"] == role.role_arn), None)
        if own is None:
            needs.append(own := {"RoleArn": role.role_arn, **({"IsOfUser": True} if role.is_of_user else {})})
        for name, items in additions.items():
            if merged := list(dict.fromkeys([*own.get(name, ()), *items])):
                own[name] = merged
        self._handler.permit(statements_of("preflight roles", Role=role.role_arn))
        if role.is_of_user:
            self._handler.permit(statements_of("preflight trust", Role=role.role_arn))

    def _add_images(self, named: Sequence[str]) -> None:
        if not named:
            return
        self._images |= dict.fromkeys(named)
        prefix = "arn:${AWS::Partition}:ecr:${AWS::Region}:${Account}:repository/"
        account = ContainerRegistry.of(self).account
        repositories = tuple(sub_account(prefix + name, account) for name in repositories_of(named))
        self._handler.permit(statements_of("preflight images", Repositories=repositories))

    def _add_reservation(self, arn: str, instance_type: str | None = None, use: str | None = None) -> None:
        self._add("Reservations", drop_none(Arn=arn, InstanceType=instance_type, Use=use))
        self._handler.permit([Statement("DescribeReservations", ("sagemaker:DescribeTrainingPlan",), (arn,))])

    def _is_there_before(self, source: Source) -> bool:
        """Return whether a source exists before the stack; the stack's own resources may wait for this preflight."""
        if not isinstance(source, S3Source) or not is_token(source.uri):
            return True
        value = StackContext.of(self).resolve(source.uri)
        return all(reference.target.startswith("AWS::") for reference in references(value))


_LISTS = ("Fleets", "Trainings", "Models", "Copies", "Data", "Stores", "Roles", "Networks", "Reservations")


def _images_of(job: JobPlan) -> list[str]:
    """Return the images in a job's request; for other jobs, SageMaker chooses the image."""
    parts: list[dict[str, Any]] = [job.request.get("AlgorithmSpecification", {})]
    parts += [part for config in job.request.get("OptimizationConfigs", ()) for part in config.values()]
    return [part[name] for part in parts for name in ("TrainingImage", "Image") if name in part]


def _batch(update: UpdateSettings, count: int) -> int:
    """Return how many instances an update launches in addition to the old ones."""
    if update.strategy != "ROLLING" or update.size is None:
        return count
    return update.size if update.size_unit == "INSTANCE_COUNT" else max(1, math.ceil(count * update.size / 100))

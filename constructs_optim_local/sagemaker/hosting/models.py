"""Models and endpoint configurations."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from constructs_optim_local.api.error import validation_error
from constructs_optim_local.sagemaker.execution import ExecutionRoles, cannot_assume, refusal
from constructs_optim_local.sagemaker.images import (
    cannot_start,
    lacks_accelerators,
    lacks_driver,
    missing_image,
)
from constructs_optim_local.sagemaker.objects import Objects
from constructs_optim_local.sagemaker.records import (
    Record,
    Records,
    Scope,
)

from .fleets import models, pool_problems, pools, variants_of
from .model_packages import ModelPackages

# Regions known to refuse an endpoint without instances (see _component_problems).
_WITHOUT_SCALE_TO_ZERO = frozenset({"eu-west-3"})

_CHANNEL = re.compile(r"/opt/ml/additional-model-data-sources/([A-Za-z0-9_.-]+)")


def could_not_find(kind: str, scope: Scope, path: str) -> Any:
    """Return a function that makes the error for a missing hosting resource."""
    # SageMaker returns a ValidationException for unknown hosting resources.
    return lambda name: validation_error(f'Could not find {kind} "{scope.arn(path, name)}".')


def exists(kind: str, scope: Scope, path: str) -> Any:
    """Return a function that makes the error for a name that is taken."""
    return lambda name: validation_error(f'Cannot create already existing {kind} "{scope.arn(path, name)}".')


class Hosting:
    """Models and endpoint configurations of one account and Region."""

    def __init__(self, scope: Scope, roles: ExecutionRoles, objects: Objects) -> None:
        self.scope, self.roles, self._objects = scope, roles, objects
        self.packages = ModelPackages(scope)
        self.models = Records(could_not_find("model", scope, "model"), exists("model", scope, "model"))
        self.configs = Records(
            could_not_find("endpoint configuration", scope, "endpoint-config"),
            exists("endpoint configuration", scope, "endpoint-config"),
        )

    def create_model(self, request: Record) -> Record:
        """CreateModel."""
        if not request.get("PrimaryContainer") and not request.get("Containers"):
            raise validation_error("Requires at least one of PrimaryContainer, Containers")
        self.packages.check(_containers(request))
        _check_prefixes(request)
        self._check_data(request)
        self._check_manifests(request)
        arn = self.add(self.models, "model", "ModelName", "ModelArn", request)
        return {"ModelArn": arn}

    def describe_model(self, request: Record) -> Record:
        """DescribeModel."""
        return {"EnableNetworkIsolation": False, **self.models.get(request["ModelName"])}

    def delete_model(self, request: Record) -> Record:
        """DeleteModel."""
        self.models.remove(request["ModelName"])
        return {}

    def list_models(self, request: Record) -> Record:
        """ListModels."""
        return self.models.page("Models", request, only("ModelName", "ModelArn", "CreationTime"))

    def create_config(self, request: Record) -> Record:
        """CreateEndpointConfig.

        Assumed, without a source: SageMaker checks that it can assume ExecutionRoleArn as it does for jobs, in the same
        words (optimization/jobs.py).
        """
        problems = [problem for variant in variants_of(request) for problem in pool_problems(variant)]
        problems += _name_problems(request)
        problems += _shadow_problems(request)
        for variant in variants_of(request):
            if models(variant) and variant.get("ManagedInstanceScaling", {}).get("Status") == "ENABLED":
                # Source of the message: https://github.com/hashicorp/terraform-provider-aws/pull/45926.
                raise validation_error("ManagedInstanceScaling is only supported for inference component endpoints.")
        for variant in variants_of(request):
            problems += _component_problems(request, variant, self.scope.region)
        if problems:
            raise validation_error("; ".join(problems))
        for variant in variants_of(request):
            for name in models(variant):
                self.models.get(name)
        role, own = request.get("ExecutionRoleArn"), self.scope.arn("endpoint-config", request["EndpointConfigName"])
        if role is not None and not self.roles.assume(role, own):
            raise cannot_assume(role)
        arn = self.add(self.configs, "endpoint-config", "EndpointConfigName", "EndpointConfigArn", request)
        return {"EndpointConfigArn": arn}

    def describe_config(self, request: Record) -> Record:
        """DescribeEndpointConfig."""
        return dict(self.configs.get(request["EndpointConfigName"]))

    def delete_config(self, request: Record) -> Record:
        """DeleteEndpointConfig."""
        self.configs.remove(request["EndpointConfigName"])
        return {}

    def list_configs(self, request: Record) -> Record:
        """ListEndpointConfigs."""
        columns = only("EndpointConfigName", "EndpointConfigArn", "CreationTime")
        return self.configs.page("EndpointConfigs", request, columns)

    def add(self, records: Records, path: str, name: str, arn_name: str, request: Record) -> str:
        """Add a new resource under its name, and return its ARN."""
        arn = self.scope.arn(path, request[name])
        kept = {key: value for key, value in request.items() if key != "Tags"}
        records.add(request[name], {**kept, arn_name: arn, "CreationTime": self.scope.now()})
        self.scope.tag(arn, request.get("Tags"))
        return arn

    def images(self, model_names: list[str]) -> list[str]:
        """Return the images of those models that still exist."""
        found = [(self.models.find(name) or {}).get("PrimaryContainer", {}).get("Image") for name in model_names]
        return [image for image in found if image]

    def role(self, model_name: str | None) -> str | None:
        """Return the role of a model, if it exists and has one."""
        return (self.models.find(model_name or "") or {}).get("ExecutionRoleArn")

    def start_refused(
        self,
        model_name: str | None,
        instance_type: str,
        variant: Record,
        *,
        unhealthy: str,
        of_component: bool = False,
    ) -> str | None:
        """Return why a model's container does not start on a variant's instances of a type; None if it does.

        ``unhealthy`` is the reason if the instances lack the image's accelerators, or if a file that the container's
        environment names is not there.
        """
        container = (self.models.find(model_name or "") or {}).get("PrimaryContainer") or {}
        image = container.get("Image")
        if lacks_accelerators(instance_type, image) or _missing_channels(container):
            return unhealthy
        version = variant.get("InferenceAmiVersion")
        if lacks_driver(image, instance_type, version, of_component=of_component):
            return cannot_start(variant["VariantName"], image)
        return None

    def image_refused(self, model_name: str | None) -> str | None:
        """Return why a model's image cannot be pulled with its role; None if it can."""
        model = self.models.find(model_name or "") or {}
        role, image = model.get("ExecutionRoleArn"), (model.get("PrimaryContainer") or {}).get("Image")
        if missing_image(image):
            # Source of the message: https://github.com/aws/sagemaker-tensorflow-training-toolkit/issues/294.
            return f"The image '{image}' does not exist."
        refused = self.roles.pull(role, image) if role else None
        if role is None or refused is None:
            return None
        return (
            f"The role '{role}' does not have {refused.action.partition(':')[2]} permission for the image: '{image}'. "
            + refusal(role, refused)
        )

    def _check_data(self, request: Record) -> None:
        role, arn = request.get("ExecutionRoleArn"), self.scope.arn("model", request["ModelName"])
        if role is None:
            return
        assumed = self.roles.assume(role, arn)
        for uri in _data_uris(request):
            refused = self.roles.read(role, uri) if assumed else None
            if refused is not None or not assumed:
                raise validation_error(
                    f'Could not access model data at {uri}. Please ensure that the role "{role}" exists and that its '
                    'trust relationship policy allows the action "sts:AssumeRole" for the service principal '
                    '"sagemaker.amazonaws.com". Also ensure that the role has "s3:GetObject" permissions and that the '
                    f"object is located in {self.scope.region}. If your Model uses multiple models or uncompressed "
                    'models, please ensure that the role has "s3:ListBucket" permission.'
                    + (f" {refusal(role, refused)}" if refused is not None else "")
                )

    def _check_manifests(self, request: Record) -> None:
        """Refuse a manifest whose ETag differs from the request's.

        Source: API reference, S3ModelDataSource (ManifestEtag: "The ETag associated with Manifest S3 URI"). Assumed,
        without a source: CreateModel compares it; the message.
        """
        for source in _data_sources(request):
            uri, etag = source.get("ManifestS3Uri"), source.get("ManifestEtag")
            if uri is not None and etag is not None and (found := self._objects.etag(uri)) != etag.strip('"'):
                raise validation_error(f"The ETag of the manifest {uri} is {found}, and ManifestEtag is {etag}.")


def _component_problems(request: Record, variant: Record, region: str) -> list[str]:
    """Return why the service refuses a variant for inference components.

    Source: https://github.com/stdapi-ai/stdapi.ai/issues/43 (2026-08-27, CreateEndpointConfig): without a role, status
    400, with a message that is assumed here; the message about instances. The same call succeeded in us-east-1. Whether
    other Regions refuse it is not known.
    """
    found: list[str] = []
    if not models(variant) and "ServerlessConfig" not in variant and "ExecutionRoleArn" not in request:
        found.append("ExecutionRoleArn is required for an endpoint configuration with inference components")
    scaling = variant.get("ManagedInstanceScaling", {})
    if (
        region in _WITHOUT_SCALE_TO_ZERO
        and scaling.get("Status") == "ENABLED"
        and scaling.get("MinInstanceCount", 1) < 1
    ):
        found.append("Min instance count needs to be greater than 0 for enabled managed instance scaling")
    return found


def _name_problems(request: Record) -> list[str]:
    """Return why the service refuses the variants' names. Source: https://github.com/mlflow/mlflow/pull/6486.

    Assumed, without a source: the message; names of production and shadow variants must differ too.
    """
    names = Counter(variant["VariantName"] for variant in variants_of(request))
    return [f"Variant {name} is given {count} times" for name, count in names.items() if count > 1]


def _shadow_problems(request: Record) -> list[str]:
    """Return why the service refuses a shadow variant.

    Sources: API reference, CreateEndpointConfig ("you can only specify one variant for ProductionVariants and one
    variant for ShadowProductionVariants"); developer guide, "Shadow tests: exclusions" (serverless and asynchronous
    inference, several containers, Inf1). Assumed, without a source: the messages; a variant without a model, which is
    for inference components, is refused.
    """
    shadows = request.get("ShadowProductionVariants", [])
    if not shadows:
        return []
    found: list[str] = []
    both = variants_of(request)
    if len(shadows) != 1 or len(request["ProductionVariants"]) != 1:
        found.append("With ShadowProductionVariants, exactly one ProductionVariant and one shadow variant are allowed")
    if "AsyncInferenceConfig" in request:
        found.append("Shadow variants are not supported with AsyncInferenceConfig")
    for variant in both:
        name = variant["VariantName"]
        if "ServerlessConfig" in variant:
            found.append(f"Shadow variants are not supported with serverless variant {name}")
        if not models(variant):
            found.append(f"Shadow variants are not supported with variant {name}, which has no model")
        if any(pool["InstanceType"].startswith("ml.inf1.") for pool in pools(variant)):
            found.append(f"Shadow variants are not supported with the Inf1 instances of variant {name}")
    return found


def only(*names: str) -> Any:
    """Return a function that summarizes a record by some of its members."""
    return lambda record: {name: record[name] for name in names if name in record}


def _check_prefixes(request: Record) -> None:
    """Refuse a key name prefix that does not end with a slash.

    Source: API reference, S3ModelDataSource, S3DataType ("A valid key name prefix identified by S3Uri always ends with
    a forward slash"), https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3ModelDataSource.html. Assumed:
    the message.
    """
    for source in _data_sources(request):
        if source["S3DataType"] == "S3Prefix" and not source["S3Uri"].endswith("/"):
            raise validation_error(f"S3Uri {source['S3Uri']} must end with a forward slash for S3DataType S3Prefix.")


def _data_uris(request: Record) -> list[str]:
    """Return the S3 prefixes and manifests that a model's containers read."""
    sources = _data_sources(request)
    return [source[name] for name in ("S3Uri", "ManifestS3Uri") for source in sources if name in source]


def _missing_channels(container: Record) -> set[str]:
    """Return the additional data sources whose folders the environment names, but that the container does not have.

    Source: API reference, AdditionalModelDataSource (ChannelName), for the folder below
    ``/opt/ml/additional-model-data-sources``. An engine ends if its draft model's folder does not exist.
    """
    named = {name for value in container.get("Environment", {}).values() for name in _CHANNEL.findall(value)}
    return named - {source["ChannelName"] for source in container.get("AdditionalModelDataSources", [])}


def _containers(request: Record) -> list[Record]:
    return [*([request["PrimaryContainer"]] if "PrimaryContainer" in request else []), *request.get("Containers", [])]


def _data_sources(request: Record) -> list[Record]:
    sources = [
        source
        for container in _containers(request)
        for source in (container.get("ModelDataSource", {}), *container.get("AdditionalModelDataSources", []))
    ]
    return [source["S3DataSource"] for source in sources if "S3DataSource" in source]

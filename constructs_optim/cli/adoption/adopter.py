"""Writes declarations that import endpoints created by hand or with an SDK.

The import covers an endpoint with its current configuration (``existing_configuration=``), its components with their
models (``existing_model=``), its scalable targets, and its policies. CloudFormation refuses a reference to a resource
outside of the import, and if the template describes a resource differently, a later update changes the resource. The
declaration also contains the library's own model and configuration. The endpoint moves to them in a normal update,
whose changes ``Adoption.changes`` lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from constructs_optim.recipe import Model, Plan, Recipe, RecipeError, plan
from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.servers import ServerSettings, by_name
from constructs_optim.runtime.secret_shapes import may_be_secret

from . import members
from .declaration import Call, Code, Declaration, camel_case

Described = Mapping[str, Any]

# Application Auto Scaling user guide, "Define cooldown periods": the default for endpoint variants and components.
_COOLDOWN_SECONDS = 300
_METHODS = {
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": "on_concurrency",
    "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": "on_concurrency",
    "SageMakerVariantInvocationsPerInstance": "on_invocations",
    "SageMakerInferenceComponentInvocationsPerCopy": "on_invocations",
}
# The variables that name a container's model: HF_MODEL_ID for TGI and LMI, and the engines' own arguments.
_MODEL_VARIABLES = ("HF_MODEL_ID", "SM_VLLM_MODEL", "OPTION_MODEL_ID", "SM_SGLANG_MODEL_PATH")
_REVISION_VARIABLES = ("HF_MODEL_REVISION", "HF_REVISION", "SM_VLLM_REVISION", "OPTION_REVISION")
# Tags on resources from the SDK's JumpStartModel (sagemaker-python-sdk, jumpstart/enums.py, JumpStartTag).
_JUMPSTART_ID, _JUMPSTART_VERSION = "sagemaker-sdk:jumpstart-model-id", "sagemaker-sdk:jumpstart-model-version"
_IMAGE = re.compile(r"[^/]+/(?P<repository>[^:@]+):(?P<tag>[^@]+)")


class AdoptionError(Exception):
    """An endpoint cannot be declared; the message lists all reasons."""

    def __init__(self, endpoint: str, problems: Iterable[str]) -> None:
        """Store the problems, one sentence each."""
        self.problems = list(problems)
        super().__init__(
            f"{endpoint} cannot be adopted, so no file was written:\n"
            + "\n".join(f"- {each}" for each in self.problems)
        )


@dataclass
class Adoption:
    """An endpoint's declaration.

    Attributes:
        source: the Python program.
        identifiers: CloudFormation's identifier of each imported resource, by construct path.
        types: the type of each imported resource, by construct path.
        changes: the changes of the move to the declared model and configuration, one sentence each.
    """

    source: str
    identifiers: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    types: dict[str, str] = field(default_factory=dict[str, str])
    changes: list[str] = field(default_factory=list[str])


class Adopter:
    """Describes an endpoint and its related resources, and writes its declaration."""

    def __init__(
        self,
        sagemaker: Any,
        scaling: Any,
        ec2: Any,
        *,
        revision: str | None = None,
    ) -> None:
        """Store the clients. ``revision`` is the commit of a model that its container downloads from Hugging Face."""
        self._sagemaker, self._scaling, self._ec2, self._revision = sagemaker, scaling, ec2, revision
        self._problems: list[str] = []

    def adopt(self, endpoint_name: str, *, stack_name: str | None = None) -> Adoption:
        """Write the declaration of an endpoint.

        Args:
            endpoint_name: the endpoint's name; requests for its description fail if it does not exist.
            stack_name: the stack's name. Default: the endpoint's name in camel case.

        Raises:
            AdoptionError: if the library cannot declare the endpoint; lists all reasons.
        """
        self._problems = []
        endpoint: Any = self._sagemaker.describe_endpoint(EndpointName=endpoint_name)
        configuration: Any = self._sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
        tags = self._tags(endpoint["EndpointArn"])
        self._check(endpoint, configuration)
        variants = configuration["ProductionVariants"]
        if len(variants) > 1 or "InstanceType" not in variants[0]:
            # The further checks need exactly one variant with an instance type.
            raise AdoptionError(endpoint_name, self._problems)
        _, _, _, region, account, _ = endpoint["EndpointArn"].split(":", 5)
        stack_name = stack_name or camel_case(endpoint_name)
        self._stack_name, self._region = stack_name, region
        self._declared = Declaration(stack_name, account, region)
        self._adoption = Adoption("")
        self._declare(endpoint, configuration, tags)
        if self._problems:
            raise AdoptionError(endpoint_name, self._problems)
        self._adoption.source = self._declared.render(
            f"The endpoint {endpoint_name}, adopted from {endpoint['EndpointArn']}."
        )
        return self._adoption

    def _tags(self, arn: str) -> dict[str, str]:
        pages = self._sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
        return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}

    def _check(self, endpoint: Described, configuration: Described) -> None:
        """Collect what this library cannot declare."""
        if endpoint["EndpointStatus"] != "InService":
            self._problems.append(f"its status is {endpoint['EndpointStatus']}: wait until it is InService")
        variants = configuration["ProductionVariants"]
        if len(variants) > 1:
            self._problems.append(
                f"it has {len(variants)} production variants, but an OptimizedEndpoint has one: move traffic "
                "to one of them"
            )
        for member, meaning in (
            ("ShadowProductionVariants", "shadow variants: end the shadow test"),
            ("ExplainerConfig", "an explainer, which LLMs do not use"),
        ):
            if configuration.get(member):
                self._problems.append(f"it has {meaning}")
        for variant in variants:
            for member, meaning in (
                ("ServerlessConfig", "is serverless, which has no accelerators"),
                ("AcceleratorType", "has an Elastic Inference accelerator, which SageMaker no longer offers"),
                ("InstancePools", "has instance pools: declare it with instance_pools=[...] by hand"),
                ("CapacityReservationConfig", "has a capacity reservation: declare it by hand"),
                ("CoreDumpConfig", "writes core dumps: declare it with core_dumps=CoreDumps(...) by hand"),
                ("AcceleratorPartitionLayouts", "has GPU partitions, which a custom resource makes"),
            ):
                if variant.get(member):
                    self._problems.append(f"its variant {variant['VariantName']} {meaning}")

    def _declare(self, endpoint: Described, configuration: Described, tags: Mapping[str, str]) -> None:
        (variant,) = configuration["ProductionVariants"]
        name = endpoint["EndpointName"]
        variable, construct_id = self._declared.variable("endpoint"), self._declared.construct_id("stack", "Endpoint")
        declared = Call("OptimizedEndpoint", Code("stack"), construct_id, endpoint_name=name)
        components = self._components(name)
        models: list[Described] = []
        if (model_name := variant.get("ModelName")) is not None:
            model: Any = self._sagemaker.describe_model(ModelName=model_name)
            models.append(model)
            declared.named |= self._model_arguments(f"the model {model_name}", model, variant["InstanceType"], tags)
        elif not components:
            self._problems.append("it serves no model, neither in its variant nor in an inference component")
        for component in components:
            found: Any = self._sagemaker.describe_model(ModelName=component["Specification"]["ModelName"])
            models.append(found)
        self._refuse_others("its configuration", configuration, members.CONFIGURATION)
        for found in models:
            self._refuse_others(f"the model {found['ModelName']}", found, members.MODEL)
        declared.named["instance_type"] = variant["InstanceType"]
        declared.named |= self._options(endpoint, configuration, variant, components)
        declared.named |= self._role_and_network(configuration, models)
        self._declared.add(variable, declared)
        self._import(f"{construct_id}/Resource", "AWS::SageMaker::Endpoint", EndpointArn=endpoint["EndpointArn"])
        if model_name is not None:
            resource = f"endpoint/{name}/variant/{variant['VariantName']}"
            self._declare_scaling(variable, construct_id, resource, "sagemaker:variant:DesiredInstanceCount")
        for component, model in zip(components, models, strict=False):
            self._declare_component(component, model, variant["InstanceType"])
        for key, value in tags.items():
            if not key.startswith("aws:"):
                self._declared.add(None, Call(f"Tags.of({variable}).add", key, value))
        self._declared.imports("aws_cdk", "Tags")

    def _refuse_others(self, label: str, described: Described, known: Mapping[str, Any]) -> None:
        self._problems += [
            f"{label} has {path}, which this command does not declare: create {label.removeprefix('its ')} without it, "
            "or declare the endpoint by hand"
            for path in members.others(described, known)
        ]

    def _import(self, path: str, type_name: str, **identifier: str) -> None:
        path = f"{self._stack_name}/{path}"
        self._adoption.identifiers[path], self._adoption.types[path] = identifier, type_name

    # Models

    def _model_arguments(
        self, label: str, described: Described, instance_type: str, tags: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the arguments ``model``, ``server``, and ``environment``."""
        container = described.get("PrimaryContainer") or {}
        if not container:
            self._problems.append(f"{label} is a pipeline of containers, but an LLM has one container")
            return {}
        for member, meaning in (
            (
                "ModelPackageName",
                "uses a model package: RecommendedEndpoint(...) serves one, but cannot import it",
            ),
            (
                "AdditionalModelDataSources",
                "has additional files, such as a draft model: declare it by hand",
            ),
            ("MultiModelConfig", "is multi-model"),
        ):
            if container.get(member):
                self._problems.append(f"{label} {meaning}")
        if container.get("Mode") == "MultiModel":
            self._problems.append(f"{label} is multi-model: serve each model as an inference component")
        server = self._server(label, str(container.get("Image", "")))
        environment = dict(container.get("Environment") or {})
        model = self._model(label, container, environment, tags)
        if model is None or server is None:
            return {}
        arguments: dict[str, Any] = {"model": _call_of(model)}
        self._declared.imports("constructs_optim", "Model")
        for name in [name for name, value in environment.items() if may_be_secret(name, value)]:
            del environment[name]
            self._adoption.changes.append(f"{label}: {name} is left out, because a template must not contain a secret.")
        if model.kind == "hub":
            environment = {}
            self._adoption.changes.append(
                f"{label}: the environment and the image become those of JumpStart's document."
            )
        planned = self._planned(label, model, instance_type, server, environment)
        if planned is None:
            return {}
        own, result = planned
        different = {name: value for name, value in environment.items() if own.container.environment.get(name) != value}
        arguments["server"] = Call(server.display_name(), container_version=server.container_version)
        self._declared.imports("constructs_optim", "Server")
        if server.container_version is None:
            arguments["server"].comments[""] = f"The catalog does not have the current image, {container['Image']}."
        if different:
            arguments["environment"] = different
        image = result.container.image
        if image is not None and image != container["Image"]:
            self._adoption.changes.append(f"{label}: the image {container['Image']} becomes {image}.")
        for name, value in sorted(result.container.environment.items()):
            if container.get("Environment", {}).get(name) != value:
                self._adoption.changes.append(f"{label}: the container's environment gets {name}={value}.")
        for job in result.jobs:
            self._adoption.changes.append(f"{label}: the first deployment runs the job {job.name}.")
        return arguments

    def _server(self, label: str, image: str) -> ServerSettings | None:
        name = _IMAGE.fullmatch(image)
        row = images.uncataloged(f"{name['repository']}:{name['tag']}") if name is not None else None
        if row is None or row.server is None:
            known = "vllm, sglang, djl-inference or huggingface-pytorch-tgi-inference, with a tag"
            self._problems.append(f"{label} uses the image {image}, but the library serves with AWS's {known}")
            return None
        tag = row.tag if images.find(row.name) is not None else None
        return by_name()[row.server](container_version=tag)

    def _model(
        self, label: str, container: Described, environment: dict[str, str], tags: Mapping[str, str]
    ) -> Model | None:
        """Return the source of the weights, and remove the variables that name it from ``environment``."""
        source = (container.get("ModelDataSource") or {}).get("S3DataSource") or {}
        accepted = bool((source.get("ModelAccessConfig") or {}).get("AcceptEula"))
        named = [environment.pop(name) for name in _MODEL_VARIABLES if name in environment]
        revisions = [environment.pop(name) for name in _REVISION_VARIABLES if name in environment]
        if _JUMPSTART_ID in tags:
            version = tags.get(_JUMPSTART_VERSION)
            return Model.jumpstart(tags[_JUMPSTART_ID], version=version, accept_eula=accepted)
        if source:
            if source.get("CompressionType") != "None" or source.get("S3DataType") != "S3Prefix":
                self._problems.append(
                    f"{label} is an archive ({source['S3Uri']}): extract it below a prefix, because servers load files"
                )
                return None
            return Model.s3(source["S3Uri"], accept_eula=accepted)
        if container.get("ModelDataUrl"):
            self._problems.append(
                f"{label} is an archive ({container['ModelDataUrl']}): extract it below a prefix, because servers "
                "load files"
            )
            return None
        names = [name for name in named if not name.startswith("/")]
        if not names:
            self._problems.append(f"{label} has no model data and no variable that names a model")
            return None
        if names[0].startswith("s3://"):
            return Model.s3(names[0])
        revision = self._revision or next(iter(revisions), None)
        if revision is None or not re.fullmatch("[0-9a-f]{40}", revision):
            self._problems.append(
                f"{label} downloads {names[0]} from Hugging Face at no fixed commit whenever an instance starts: name "
                "a commit with --model-version"
            )
            return None
        return Model.huggingface(names[0], revision=revision)

    def _planned(
        self, label: str, model: Model, instance_type: str, server: ServerSettings, environment: Mapping[str, str]
    ) -> tuple[Plan, Plan] | None:
        """Return the plans without and with the user's variables; refusals by rules become problems."""
        try:
            own = plan(Recipe(model, (), instance_type, self._region, server=server))
            different = {k: v for k, v in environment.items() if own.container.environment.get(k) != v}
            return own, plan(Recipe(model, (), instance_type, self._region, environment=different, server=server))
        except RecipeError as refused:
            self._problems += [f"{label}: {violation}" for violation in refused.violations]
            return None

    # The variant

    def _options(
        self, endpoint: Described, configuration: Described, variant: Described, components: list[Described]
    ) -> dict[str, Any]:
        managed = variant.get("ManagedInstanceScaling") or {}
        timeouts = {**variant, **self._timeouts(components)}
        routing = (variant.get("RoutingConfig") or {}).get("RoutingStrategy", "RANDOM")
        options: dict[str, Any] = {"existing_configuration": endpoint["EndpointConfigName"]}
        if variant["VariantName"] != "AllTraffic":
            options["name"] = variant["VariantName"]
        if (count := variant.get("InitialInstanceCount", 1)) != 1:
            options["initial_instance_count"] = count
        if components and managed:
            options["min_instance_count"] = managed.get("MinInstanceCount")
            options["max_instance_count"] = managed.get("MaxInstanceCount")
            if (policy := managed.get("ScaleInPolicy")) is not None:
                options["scale_in"] = self._scale_in(policy)
        if variant.get("InferenceAmiVersion"):
            options["inference_ami_version"] = variant["InferenceAmiVersion"]
        for member, argument in (
            ("ContainerStartupHealthCheckTimeoutInSeconds", "container_startup_timeout"),
            ("ModelDataDownloadTimeoutInSeconds", "model_data_download_timeout"),
            ("VariantInstanceProvisionTimeoutInSeconds", "instance_provision_timeout"),
        ):
            if timeouts.get(member):
                self._declared.imports("aws_cdk", "Duration")
                options[argument] = Call("Duration.seconds", timeouts[member])
        if variant.get("VolumeSizeInGB"):
            self._declared.imports("aws_cdk", "Size")
            options["volume_size"] = Call("Size.gibibytes", variant["VolumeSizeInGB"])
        if routing == "RANDOM":
            # The API's default, which differs from the library's.
            self._declared.imports("constructs_optim", "Routing")
            options["routing"] = Call("Routing.random")
        elif routing != "LEAST_OUTSTANDING_REQUESTS":
            self._problems.append(f"its variant routes by {routing}: declare it with routing=Routing... by hand")
        if variant.get("EnableSSMAccess"):
            options["ssm_access"] = True
        self._declared.imports("constructs_optim", "VariantOptions")
        found: dict[str, Any] = {"variant": Call("VariantOptions", **options)}
        found["variant"].comments["existing_configuration"] = (
            "Serves until you remove this line. Then the endpoint moves to the configuration declared here."
        )
        if (key := configuration.get("KmsKeyId")) is not None:
            found["encryption_key"] = self._key("VolumeKey", key)
        if (capture := configuration.get("DataCaptureConfig") or {}).get("EnableCapture"):
            found["data_capture"] = self._capture(capture)
        metrics = configuration.get("MetricsConfig") or {}
        if any(metrics.values()):
            observed = _arguments(
                metrics,
                EnableEnhancedMetrics="enhanced",
                EnableDetailedObservability="detailed",
                MetricPublishFrequencyInSeconds="frequency_seconds",
            )
            self._declared.imports("constructs_optim", "MonitoringOptions")
            self._declared.imports("constructs_optim", "Observability")
            found["monitoring"] = Call("MonitoringOptions", observability=Call("Observability", **observed))
        if configuration.get("AsyncInferenceConfig"):
            found["async_inference"] = self._queue(configuration["AsyncInferenceConfig"])
        return found

    def _timeouts(self, components: list[Described]) -> Described:
        """Return the startup timeouts of the components, which are an option of their endpoint."""
        given = [component["Specification"].get("StartupParameters") or {} for component in components]
        if any(each != given[0] for each in given):
            self._problems.append(
                "its components have different StartupParameters, but those of an OptimizedEndpoint share them: update "
                "the components to the same timeouts"
            )
        return given[0] if given else {}

    def _scale_in(self, policy: Described) -> Call:
        self._declared.imports("constructs_optim", "ScaleIn")
        options = _arguments(
            policy, Strategy="strategy", MaximumStepSize="max_step_size", CooldownInMinutes="cooldown_minutes"
        )
        return Call("ScaleIn", **options)

    def _key(self, id: str, key: str) -> Call | None:
        if not key.startswith("arn:"):
            self._problems.append(f"it names the KMS key {key} without its ARN, which a declaration needs")
            return None
        self._declared.imports("aws_cdk", "aws_kms as kms")
        return Call("kms.Key.from_key_arn", Code("stack"), id, key)

    def _location(self, id: str, uri: str) -> dict[str, Any]:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        if not prefix.strip("/"):
            self._problems.append(f"{uri} is a whole bucket, but the library writes below a prefix")
        self._declared.imports("aws_cdk", "aws_s3 as s3")
        return {
            "bucket": Call("s3.Bucket.from_bucket_name", Code("stack"), id, bucket),
            "prefix": prefix.strip("/"),
        }

    def _capture(self, capture: Described) -> Call:
        modes = {option["CaptureMode"] for option in capture["CaptureOptions"]}
        options = self._location("CaptureBucket", capture["DestinationS3Uri"])
        options["sampling_percentage"] = capture["InitialSamplingPercentage"]
        both = {"InputAndOutput"} & modes
        options |= {} if both or "Input" in modes else {"requests": False}
        options |= {} if both or "Output" in modes else {"responses": False}
        header = capture.get("CaptureContentTypeHeader") or {}
        if header.get("JsonContentTypes"):
            options["json_content_types"] = list(header["JsonContentTypes"])
        else:
            # API reference, CaptureContentTypeHeader: without it, SageMaker encodes all captures in base64.
            self._adoption.changes.append("Captures of application/json and application/jsonlines become text.")
        if header.get("CsvContentTypes"):
            types = ", ".join(header["CsvContentTypes"])
            self._adoption.changes.append(f"Captures of {types} are encoded in base64.")
        if capture.get("KmsKeyId"):
            options["encryption_key"] = self._key("CaptureKey", capture["KmsKeyId"])
        self._declared.imports("constructs_optim", "DataCapture")
        return Call("DataCapture", **options)

    def _queue(self, queue: Described) -> Call:
        output = queue["OutputConfig"]
        options = self._location("ResponseBucket", output["S3OutputPath"])
        most = (queue.get("ClientConfig") or {}).get("MaxConcurrentInvocationsPerInstance")
        if most is not None:
            options["max_concurrent_invocations_per_instance"] = most
        notified = output.get("NotificationConfig") or {}
        for member, argument in (("SuccessTopic", "success_topic"), ("ErrorTopic", "error_topic")):
            if notified.get(member):
                self._declared.imports("aws_cdk", "aws_sns as sns")
                options[argument] = Call("sns.Topic.from_topic_arn", Code("stack"), member, notified[member])
        if notified.get("IncludeInferenceResponseIn"):
            options["include_responses_in"] = list(notified["IncludeInferenceResponseIn"])
        if output.get("KmsKeyId"):
            options["encryption_key"] = self._key("ResponseKey", output["KmsKeyId"])
        failures = f"{output['S3OutputPath'].rstrip('/')}-failures"
        if output.get("S3FailurePath", failures).rstrip("/") != failures:
            self._adoption.changes.append(
                f"SageMaker writes failures below {failures}, not below {output['S3FailurePath']}."
            )
        self._declared.imports("constructs_optim", "AsyncInference")
        return Call("AsyncInference", **options)

    def _role_and_network(self, configuration: Described, models: list[Described]) -> dict[str, Any]:
        roles = {model["ExecutionRoleArn"] for model in models} | {configuration.get("ExecutionRoleArn")} - {None}
        networks = [model.get("VpcConfig") for model in models]
        networks += [configuration["VpcConfig"]] if configuration.get("VpcConfig") else []
        isolated = {bool(model.get("EnableNetworkIsolation")) for model in models}
        if configuration.get("EnableNetworkIsolation") and False in isolated:
            self._problems.append(
                "its configuration has EnableNetworkIsolation and its models have not: create the models with it"
            )
        found: dict[str, Any] = {}
        if len(roles) > 1:
            self._problems.append(f"its models use {len(roles)} roles, but those of an OptimizedEndpoint use one")
        elif roles:
            self._declared.imports("aws_cdk", "aws_iam as iam")
            found["role"] = Call("iam.Role.from_role_arn", Code("stack"), "Role", str(next(iter(roles))), mutable=False)
        options: dict[str, Any] = {}
        if any(network != networks[0] for network in networks):
            self._problems.append(
                "its models and its configuration are in different VPCs, but those of an OptimizedEndpoint are in one"
            )
        elif networks and networks[0]:
            options |= self._network(networks[0])
        if False in isolated:
            options["isolation"] = False
        if options:
            self._declared.imports("constructs_optim", "NetworkOptions")
            found["network"] = Call("NetworkOptions", **options)
            if False in isolated:
                found["network"].comments["isolation"] = "The current setting. A model in S3 needs no network."
        return found

    def _network(self, network: Described) -> dict[str, Any]:
        subnets = self._ec2.describe_subnets(SubnetIds=list(network["Subnets"]))["Subnets"]
        self._declared.imports("aws_cdk", "aws_ec2 as ec2")
        vpc = Call(
            "ec2.Vpc.from_vpc_attributes",
            Code("stack"),
            "Vpc",
            vpc_id=subnets[0].get("VpcId"),
            availability_zones=[subnet.get("AvailabilityZone") for subnet in subnets],
            private_subnet_ids=[subnet.get("SubnetId") for subnet in subnets],
        )
        groups = [
            Call("ec2.SecurityGroup.from_security_group_id", Code("stack"), f"Group{i}", group, mutable=False)
            for i, group in enumerate(network["SecurityGroupIds"], 1)
        ]
        return {"vpc": vpc, "security_groups": groups}

    # Components

    def _components(self, endpoint_name: str) -> list[Described]:
        pages = self._sagemaker.get_paginator("list_inference_components").paginate(EndpointNameEquals=endpoint_name)
        names = sorted(found["InferenceComponentName"] for page in pages for found in page["InferenceComponents"])
        described: list[Described] = []
        for name in names:
            component: Any = self._sagemaker.describe_inference_component(InferenceComponentName=name)
            specification = component.get("Specification") or {}
            label = f"the inference component {name}"
            if name != name.lower():
                self._problems.append(f"{label} has capitals in its name, but references use its ARN, which has none")
            if component["InferenceComponentStatus"] != "InService":
                self._problems.append(f"the status of {label} is {component['InferenceComponentStatus']}")
            if specification.get("BaseInferenceComponentName"):
                self._problems.append(
                    f"{label} is an adapter: delete it, and add it with add_adapter(...) after the adoption"
                )
            elif not specification.get("ModelName"):
                self._problems.append(
                    f"{label} has a container or several specifications in place of a SageMaker model"
                )
            else:
                self._refuse_others(label, component, members.COMPONENT)
                described.append(component)
        return described

    def _declare_component(self, component: Described, model: Described, instance_type: str) -> None:
        name, specification = component["InferenceComponentName"], component["Specification"]
        requirements = specification.get("ComputeResourceRequirements") or {}
        accelerators = requirements.get("NumberOfAcceleratorDevicesRequired")
        if accelerators is None or accelerators != int(accelerators):
            self._problems.append(
                f"the inference component {name} uses {accelerators} accelerators, which is not a whole number"
            )
            return
        construct_id = self._declared.construct_id("endpoint", name)
        declared = Call(
            "endpoint.add_component", construct_id, component_name=name, existing_model=specification["ModelName"]
        )
        declared.comments["existing_model"] = "Like existing_configuration: remove both at once, or one at a time."
        label = f"the model {specification['ModelName']}"
        declared.named |= self._model_arguments(
            label, model, instance_type, self._tags(component["InferenceComponentArn"])
        )
        self._declared.imports("aws_cdk", "Size")
        declared.named |= {
            "accelerators": int(accelerators),
            "memory": Call("Size.mebibytes", requirements["MinMemoryRequiredInMb"]),
            "copies": max(component["RuntimeConfig"]["DesiredCopyCount"], 1),
        }
        if declared.named["copies"] > component["RuntimeConfig"]["DesiredCopyCount"]:
            declared.comments["copies"] = "Scaled to zero at the time of adoption. SageMaker creates at least one copy."
        options: dict[str, Any] = {}
        if requirements.get("NumberOfCpuCoresRequired"):
            options["cpu_cores"] = requirements["NumberOfCpuCoresRequired"]
        if requirements.get("MaxMemoryRequiredInMb"):
            options["max_memory"] = Call("Size.mebibytes", requirements["MaxMemoryRequiredInMb"])
        if specification.get("DataCacheConfig"):
            options["caching"] = specification["DataCacheConfig"]["EnableCaching"]
        if specification.get("SchedulingConfig"):
            self._problems.append(f"the inference component {name} has a placement: declare it with placement= by hand")
        if options:
            self._declared.imports("constructs_optim", "ComponentOptions")
            declared.named["options"] = Call("ComponentOptions", **options)
        variable = self._declared.variable(name)
        self._declared.add(variable, declared)
        arn = component["InferenceComponentArn"]
        self._import(
            f"Endpoint/{construct_id}/Component/Resource",
            "AWS::SageMaker::InferenceComponent",
            InferenceComponentArn=arn,
        )
        resource = f"inference-component/{name}"
        self._declare_scaling(
            variable, f"Endpoint/{construct_id}/Component", resource, "sagemaker:inference-component:DesiredCopyCount"
        )

    # Scaling

    def _declare_scaling(self, variable: str, path: str, resource: str, dimension: str) -> None:
        key: Any = {"ServiceNamespace": "sagemaker", "ScalableDimension": dimension}
        targets: Any = self._scaling.describe_scalable_targets(ResourceIds=[resource], **key)["ScalableTargets"]
        if not targets:
            return
        (target,) = targets
        actions = self._scaling.describe_scheduled_actions(ResourceId=resource, **key)["ScheduledActions"]
        if actions:
            names = ", ".join(sorted(action["ScheduledActionName"] for action in actions))
            self._problems.append(
                f"{resource} has scheduled scaling actions ({names}): delete them, and declare them with "
                "on_schedule(...)"
            )
        if any((target.get("SuspendedState") or {}).values()):
            self._problems.append(f"the scaling of {resource} is suspended: resume it first")
        identifier = {"ResourceId": resource, "ScalableDimension": dimension, "ServiceNamespace": "sagemaker"}
        self._import(f"{path}/Scaling/Target", "AWS::ApplicationAutoScaling::ScalableTarget", **identifier)
        low, high = target["MinCapacity"], target["MaxCapacity"]
        scaling = self._declared.variable(f"{variable}_scaling")
        calls: list[Call] = []
        policies: Any = self._scaling.describe_scaling_policies(ResourceId=resource, **key)["ScalingPolicies"]
        others: list[Described] = []
        for policy in policies:
            tracking = policy.get("TargetTrackingScalingPolicyConfiguration") or {}
            metric = (tracking.get("PredefinedMetricSpecification") or {}).get("PredefinedMetricType")
            method = _METHODS.get(str(metric))
            if method is None or any(call.name == f"{scaling}.{method}" for call in calls):
                others.append(policy)
                continue
            self._declared.imports("aws_cdk", "Duration")
            cooldowns = {
                argument: Call("Duration.seconds", tracking.get(member, _COOLDOWN_SECONDS))
                for member, argument in (
                    ("ScaleInCooldown", "scale_in_cooldown"),
                    ("ScaleOutCooldown", "scale_out_cooldown"),
                )
            }
            disabled = {"disable_scale_in": True} if tracking.get("DisableScaleIn") else {}
            options = {"policy_name": policy["PolicyName"], **cooldowns, **disabled}
            calls.append(Call(f"{scaling}.{method}", target=tracking["TargetValue"], **options))
            self._import_policy(f"{path}/Scaling/{camel_case(method)}", policy)
        auto_scale = Call(f"{variable}.auto_scale", min_capacity=low, max_capacity=high)
        self._declared.add(scaling if calls else None, auto_scale)
        for call in calls:
            self._declared.add(None, call)
        for policy in others:
            self._declare_policy(policy, f"{resource}|{dimension}|sagemaker")

    def _declare_policy(self, policy: Described, target: str) -> None:
        """Declare a policy that the scaling methods cannot declare, with its current settings."""
        self._declared.imports("aws_cdk", "aws_applicationautoscaling as autoscaling")
        construct_id = self._declared.construct_id("stack", f"{policy['PolicyName']} policy")
        configurations = {
            "TargetTrackingScalingPolicyConfiguration": "target_tracking_scaling_policy_configuration",
            "StepScalingPolicyConfiguration": "step_scaling_policy_configuration",
            "PredictiveScalingPolicyConfiguration": "predictive_scaling_policy_configuration",
        }
        declared = Call(
            "autoscaling.CfnScalingPolicy",
            Code("stack"),
            construct_id,
            policy_name=policy["PolicyName"],
            policy_type=policy["PolicyType"],
            scaling_target_id=target,
            **{argument: _property(policy[name]) for name, argument in configurations.items() if policy.get(name)},
        )
        declared.comments[""] = "The existing policy: on_metric(...) and on_steps(...) would create new ones."
        variable = self._declared.variable(f"{policy['PolicyName']}_policy")
        self._declared.add(variable, declared)
        self._declared.imports("aws_cdk", "RemovalPolicy")
        # An import needs a removal policy. If the app has none, the CLI does not choose the default.
        self._declared.add(None, Call(f"{variable}.apply_removal_policy", Code("RemovalPolicy.DESTROY")))
        self._import_policy(construct_id, policy)

    def _import_policy(self, path: str, policy: Described) -> None:
        identifier = {"Arn": policy["PolicyARN"], "ScalableDimension": policy["ScalableDimension"]}
        self._import(path, "AWS::ApplicationAutoScaling::ScalingPolicy", **identifier)


def _call_of(model: Model) -> Call:
    """Return the code that declares a model."""
    if model.kind == "s3":
        return Call("Model.s3", model.uri, **({"accept_eula": True} if model.accept_eula else {}))
    if model.kind == "huggingface":
        return Call("Model.huggingface", model.model_id, revision=model.revision)
    version = {"version": model.version} if model.version is not None else {}
    return Call("Model.jumpstart", model.model_id, **version, accept_eula=model.accept_eula)


def _arguments(described: Described, **names: str) -> dict[str, Any]:
    """Return the members that are given, by the arguments' ``names`` for them."""
    return {argument: described[member] for member, argument in names.items() if described.get(member) is not None}


def _property(value: Any) -> Any:
    """Return an API member as a construct's property, with names that begin in lower case."""
    if isinstance(value, Mapping):
        members: Mapping[str, Any] = value
        return {f"{name[0].lower()}{name[1:]}": _property(member) for name, member in members.items()}
    if isinstance(value, list):
        items: list[Any] = value
        return [_property(item) for item in items]
    return value

"""Rules about an endpoint's instances, and what its configuration says about them.

The ranges are those of the API's own model (CreateEndpointConfig).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from constructs_optim.recipe.errors import Described
from constructs_optim.recipe.hosting import (
    COMPONENT_STARTUP_SECONDS,
    Adapters,
    CapacityReservation,
    Hosting,
    Observability,
    Routing,
    UpdateSettings,
)
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.tokens import is_token

_CONFIG = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html"
_VARIANT = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html"
_POOL = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InstancePool.html"
_ASYNC = "https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference.html"
_RESOURCES = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_SageMaker.html"
_STARTUP_SECONDS = 3600
# CloudFormation's schemas of AWS::SageMaker::Endpoint (handlers.create.timeoutInMinutes: 160) and InferenceComponent
# (none, so the registry's default of 120).
_ENDPOINT_PATIENCE, _COMPONENT_PATIENCE = 9600, 7200
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_RESERVATION = re.compile(r"arn:aws[a-z\-]*:sagemaker:[a-z0-9\-]*:[0-9]{12}:[a-z0-9\-]{1,14}/.*")
_MOST_POOLS = 5
_RESERVATION_EXAMPLE = 'CapacityReservation(arn="arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama")'
# The API's machine images, and the kind of accelerator whose drivers they have.
_IMAGES = {
    "al2-ami-sagemaker-inference-gpu-2": "gpu",
    "al2-ami-sagemaker-inference-gpu-2-1": "gpu",
    "al2-ami-sagemaker-inference-gpu-3-1": "gpu",
    "al2-ami-sagemaker-inference-neuron-2": "neuron",
    "al2023-ami-sagemaker-inference-gpu-4-1": "gpu",
}


def in_range(value: Any, least: int, most: int | None = None) -> bool:
    """Whether it is a whole number within the range."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and value >= least and (most is None or value <= most)


@rule(
    "OPT100",
    title="Names of endpoint and variant are the service's",
    reason="a name has 1 to 63 letters, digits and hyphens, and begins and ends with none of the last",
    link=_CONFIG,
)
def _names_are_valid(hosting: Hosting) -> Iterator[Finding]:
    for place, name in (("endpoint_name", hosting.endpoint_name), ("variant.name", hosting.variant_name)):
        if name is None and place == "endpoint_name":
            continue
        if not isinstance(name, str) or not (is_token(name) or _NAME.fullmatch(name)):
            yield Finding(place, name, "a name such as chat-llama-70b")


@rule(
    "OPT101",
    title="An endpoint starts with instances",
    reason="a variant has at least one instance; only one that serves inference components may start with none",
    link=_VARIANT,
)
def _there_are_instances(hosting: Hosting) -> Iterator[Finding]:
    least = 0 if hosting.serves_components and hosting.minimum_instance_count == 0 else 1
    if not in_range(hosting.initial_instance_count, least):
        count = hosting.initial_instance_count
        reason = "a count is a number, and this is text" if isinstance(count, str) else None
        yield Finding("variant.initial_instance_count", count, f"a whole number from {least} on", reason=reason)


@rule(
    "OPT102",
    title="SageMaker scales the instances of inference components",
    reason="managed instance scaling keeps the number of instances in a range, and fits them to the copies of "
    "inference components",
    link="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantManagedInstanceScaling.html",
)
def _managed_range_is_one(hosting: Hosting) -> Iterator[Finding]:
    least, most, start = hosting.minimum_instance_count, hosting.maximum_instance_count, hosting.initial_instance_count
    given = [("variant.min_instance_count", least), ("variant.max_instance_count", most)]
    if not hosting.serves_components:
        for place, value in given:
            if value is not None:
                yield Finding(place, value, "inference_component=True, or auto_scale(...) for a variant's instances")
        return
    if least is not None and not in_range(least, 0):
        yield Finding("variant.min_instance_count", least, "a whole number from 0 on", reason="no number of instances")
    elif most is not None and not in_range(most, max(1, least or 0)):
        yield Finding("variant.max_instance_count", most, f"a whole number from {max(1, least or 0)} on")
    elif most is not None and in_range(start, 0) and not (least or 0) <= start <= most:
        yield Finding(
            "variant.initial_instance_count", start, f"a number from {least or 0} to {most}, the managed range"
        )


@rule(
    "OPT103",
    title="Hosting options are objects of this library",
    reason="an option is made by its class",
    link=_CONFIG,
)
def _options_are_objects(hosting: Hosting) -> Iterator[Finding]:
    for path, option, kind, example in (
        ("adapters", hosting.adapter_settings, Adapters, "Adapters(max_loaded=4, max_rank=64)"),
        ("variant.capacity_reservation", hosting.capacity_reservation, CapacityReservation, _RESERVATION_EXAMPLE),
        ("monitoring.observability", hosting.observability, Observability, "Observability(enhanced=True)"),
        ("variant.routing", hosting.routing, Routing, "Routing.least_outstanding_requests()"),
        ("update_policy", hosting.update, UpdateSettings, "UpdatePolicy.all_at_once()"),
    ):
        if option is not None and not isinstance(option, kind):
            yield Finding(path, option, example)


@rule(
    "OPT104",
    title="Data capture takes a share of the requests",
    reason="the share is a whole percentage",
    link="https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DataCaptureConfig.html",
)
def _capture_is_a_percentage(hosting: Hosting) -> Iterator[Finding]:
    share = hosting.capture_percentage
    if share is not None and not in_range(share, 0, 100):
        yield Finding("data_capture.sampling_percentage", share, "0 to 100")


@rule(
    "OPT105",
    title="An asynchronous endpoint serves a variant's model",
    reason="asynchronous inference queues requests for a variant: it does not go with inference components",
    link=_ASYNC,
)
def _asynchronous_serves_a_variant(hosting: Hosting) -> Iterator[Finding]:
    if not hosting.asynchronous:
        return
    if hosting.serves_components:
        yield Finding("async_inference", "given", "a variant (inference_component=False), or requests answered at once")
    most = hosting.concurrent_invocations
    if most is not None and not in_range(most, 1, 1000):
        yield Finding(
            "async_inference.max_concurrent_invocations_per_instance",
            most,
            "1 to 1000",
            reason="an instance is sent 1 to 1,000 requests at once",
        )


@rule(
    "OPT106",
    title="Timeouts are within the service's limits",
    reason="downloading and loading a model may take 1 minute to 1 hour, finding an instance 5 minutes to 1 hour",
    link=_VARIANT,
)
def _timeouts_are_in_range(hosting: Hosting) -> Iterator[Finding]:
    for place, seconds, least in (
        ("variant.model_data_download_timeout", hosting.download_timeout_seconds, 60),
        ("variant.container_startup_timeout", hosting.startup_timeout_seconds, 60),
        ("variant.instance_provision_timeout", hosting.provision_timeout_seconds, 300),
    ):
        if seconds is not None and not in_range(seconds, least, 3600):
            yield Finding(place, f"{seconds} s", f"{least} to 3600 seconds")


@rule(
    "OPT112",
    title="A model starts while CloudFormation waits",
    reason="CloudFormation gives up on an endpoint that is not there after 160 minutes, on a component after 120",
    link=_RESOURCES,
    advisory=True,
)
def _starts_in_time(hosting: Hosting) -> Iterator[Finding]:
    given = (hosting.download_timeout_seconds, hosting.startup_timeout_seconds, hosting.provision_timeout_seconds)
    known = [COMPONENT_STARTUP_SECONDS if hosting.serves_components else _STARTUP_SECONDS] * 2 + [0]
    seconds = [default if each is None else each for each, default in zip(given, known, strict=True)]
    patience = _COMPONENT_PATIENCE if hosting.serves_components else _ENDPOINT_PATIENCE
    if given != (None, None, None) and all(in_range(each, 0) for each in seconds) and sum(seconds) > patience:
        yield Finding(
            "variant.container_startup_timeout",
            f"{sum(seconds)} s",
            f"Keep the times for download, startup and provisioning within {patience} s together: a model that takes "
            "longer fails the deployment while SageMaker goes on",
        )


@rule(
    "OPT107",
    title="Only volumes that SageMaker attaches have a size and a key",
    reason="instance types with NVMe disks keep models there: SageMaker refuses a volume size or a KMS key for them, "
    "and the hardware encrypts their disks with a key that is lost with the instance",
    link=_CONFIG,
)
def _volumes_are_attached(hosting: Hosting) -> Iterator[Finding]:
    with_disks = sorted({row.name for row in hosting.rows if row.nvme_gb})
    size = Described(f"{hosting.volume_gib} GiB") if hosting.volume_gib is not None else None
    key = Described("a KMS key") if hosting.encrypted_volume else None
    for place, given in (("variant.volume_size", size), ("encryption_key", key)):
        if given is not None and with_disks:
            types = ", ".join(with_disks)
            yield Finding(place, given, f"leave {place} out, or choose a type without NVMe disks instead of {types}")
    if hosting.volume_gib is not None and not in_range(hosting.volume_gib, 1, 512):
        yield Finding(
            "variant.volume_size", f"{hosting.volume_gib} GiB", "1 to 512 GiB", reason="a volume has 1 to 512 GiB"
        )


@rule(
    "OPT108",
    title="The machine image has the accelerator's drivers",
    reason="a machine image is made for GPUs or for Neuron devices",
    link=_VARIANT,
)
def _machine_image_fits(hosting: Hosting) -> Iterator[Finding]:
    version = hosting.ami_version
    if version is None or is_token(version):
        return
    kinds = {row.kind for row in hosting.rows}
    fitting = [name for name, kind in _IMAGES.items() if not kinds or kinds == {kind}]
    if version not in _IMAGES:
        yield Finding(
            "variant.inference_ami_version", version, " or ".join(fitting), reason="there is no such machine image"
        )
    elif version not in fitting:
        suggestion = " or ".join(fitting) or "leave it out: the pools have accelerators of two kinds"
        yield Finding("variant.inference_ami_version", version, suggestion)


@rule(
    "OPT109",
    title="A capacity reservation is named by its ARN",
    reason="SageMaker finds a reservation by the ARN of its training plan",
    link="https://docs.aws.amazon.com/sagemaker/latest/APIReference/"
    "API_ProductionVariantCapacityReservationConfig.html",
)
def _reservation_is_an_arn(hosting: Hosting) -> Iterator[Finding]:
    reservation = hosting.capacity_reservation
    if not isinstance(reservation, CapacityReservation):
        return
    if not (is_token(reservation.arn) or _RESERVATION.fullmatch(reservation.arn)):
        yield Finding("variant.capacity_reservation.arn", reservation.arn, _RESERVATION_EXAMPLE)
    if hosting.pooled and len(hosting.instance_types) > 1:
        yield Finding(
            "variant.capacity_reservation",
            "with instance_pools",
            "a reservation for one instance type, or pools",
            reason="a reservation is of one instance type, and SageMaker launches nothing outside it",
        )


@rule(
    "OPT111",
    title="Instance pools differ, and are at most five",
    reason="SageMaker tries one to five pools in their order, each of an instance type of its own",
    link=_POOL,
)
def _pools_differ(hosting: Hosting) -> Iterator[Finding]:
    if not hosting.pooled:
        return
    count = len(hosting.instance_types)
    if not 1 <= count <= _MOST_POOLS:
        yield Finding("instance_pools", f"{count} pools", "1 to 5 pools")
    for place, name in enumerate(hosting.instance_types):
        if name in hosting.instance_types[:place]:
            yield Finding(f"instance_pools[{place}].instance_type", name, "a type that no earlier pool has")

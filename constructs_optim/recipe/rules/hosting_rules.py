"""Rules for an endpoint's instances, configuration and updates.

The ranges come from the API's service model (CreateEndpointConfig, DeploymentConfig).
"""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import math
import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import instances, machine_images
from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.durations import duration
from constructs_optim.recipe.hosting import COMPONENT_STARTUP_SECONDS, Hosting, UpdateSettings
from constructs_optim.recipe.hosting.machine_image import HostedContainer, MachineImageUse, newest
from constructs_optim.recipe.hosting.options import Placement, ScaleIn, StepOfFleet
from constructs_optim.recipe.plan_data import STARTUP_SECONDS
from constructs_optim.recipe.servers import VllmServer
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.tokens import is_known, is_token, is_whole, matches

from .registry import API, GUIDE, Finding, rule

_RESOURCES = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_SageMaker.html"
# CloudFormation's schemas of AWS::SageMaker::Endpoint (handlers.create.timeoutInMinutes: 160) and InferenceComponent
# (none, so the registry's default of 120).
_ENDPOINT_TIMEOUT, _COMPONENT_TIMEOUT = 9600, 7200
NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
RESERVATION = re.compile(r"(?=.{1,256}\Z)arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:\d{12}:[a-z0-9-]{1,14}/\S+")
RESERVATION_EXAMPLE = 'CapacityReservation(arn="arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama")'
_MOST_POOLS = 5
MOST_ROLLBACK_ALARMS = 10
"""The maximum number of alarms that SageMaker monitors during an update."""
_LONGEST_UPDATE_SECONDS = 28_800
# The smallest and largest step of each strategy, as a percentage of the fleet.
_SMALLEST_STEP, _LARGEST_STEP = {"CANARY": 1, "LINEAR": 10, "ROLLING": 5}, 50


@rule("OPT100", f"{API}CreateEndpointConfig.html")
def _names_are_valid(hosting: Hosting) -> Iterator[Finding]:
    """Endpoint and variant names are valid: a name has 1 to 63 letters, digits and inner hyphens."""
    for location, name in (("endpoint_name", hosting.endpoint_name), ("variant.name", hosting.variant_name)):
        if not (name is None and location == "endpoint_name") and not matches(NAME, name):
            yield Finding(location, name, "a name such as chat-llama-70b")


@rule("OPT101", f"{API}ProductionVariant.html")
def _there_are_instances(hosting: Hosting) -> Iterator[Finding]:
    """An endpoint starts with instances: only an inference component endpoint can start without any."""
    count = hosting.initial_instance_count
    least = 0 if hosting.serves_components and hosting.minimum_instance_count == 0 else 1
    if not is_whole(count, least):
        yield Finding("variant.initial_instance_count", count, f"a whole number, {least} or greater")


@rule("OPT102", f"{API}ProductionVariantManagedInstanceScaling.html")
def _managed_range_is_valid(hosting: Hosting) -> Iterator[Finding]:
    """Managed scaling needs inference components: managed instance scaling fits instances to the components' copies."""
    least, most, start = hosting.minimum_instance_count, hosting.maximum_instance_count, hosting.initial_instance_count
    if not hosting.serves_components:
        if hosting.scale_in is not None:
            fix = "inference_component=True, or leave it out: auto_scale(...) controls scale-in of a variant"
            yield Finding("variant.scale_in", hosting.scale_in.strategy, fix)
        for name, value in (("min", least), ("max", most)):
            if value is not None:
                fix = "inference_component=True, or auto_scale(...) to scale a variant's instances"
                yield Finding(f"variant.{name}_instance_count", value, fix)
        return
    lowest = least if is_whole(least, 0) else 0
    if least is not None and not is_whole(least, 0):
        yield Finding(
            "variant.min_instance_count", least, "a whole number, 0 or greater", "this is not a number of instances"
        )
    if most is not None and not is_whole(most, max(1, lowest)):
        yield Finding("variant.max_instance_count", most, f"a whole number, {max(1, lowest)} or greater")
    elif most is not None and is_whole(start, 0) and not lowest <= start <= most:
        fix = f"a number in the managed range, {lowest} to {most}"
        yield Finding("variant.initial_instance_count", start, fix)


@rule("OPT104", f"{API}DataCaptureConfig.html")
def _capture_is_a_percentage(hosting: Hosting) -> Iterator[Finding]:
    """The sampling percentage is 0 to 100: data capture samples a whole percentage of the requests."""
    share = hosting.capture_percentage
    if share is not None and not is_whole(share, 0, 100):
        yield Finding("data_capture.sampling_percentage", share, "0 to 100")


@rule("OPT105", f"{GUIDE}async-inference.html")
def _asynchronous_serves_a_variant(hosting: Hosting) -> Iterator[Finding]:
    """An asynchronous endpoint serves a variant: asynchronous inference does not support inference components."""
    if hosting.asynchronous and hosting.serves_components:
        yield Finding("async_inference", "set", "a variant (inference_component=False), or a synchronous endpoint")
    most = hosting.concurrent_invocations
    if hosting.asynchronous and most is not None and not is_whole(most, 1, 1000):
        reason = "SageMaker sends an instance 1 to 1,000 concurrent requests"
        yield Finding("async_inference.max_concurrent_invocations_per_instance", most, "1 to 1000", reason)


@rule("OPT106", f"{API}ProductionVariant.html")
def _timeouts_are_in_range(hosting: Hosting) -> Iterator[Finding]:
    """Timeouts are within limits: download and startup allow 1 minute to 1 hour, provisioning 5 minutes to 1 hour."""
    for location, seconds, least in (
        ("variant.model_data_download_timeout", hosting.download_timeout_seconds, 60),
        ("variant.container_startup_timeout", hosting.startup_timeout_seconds, 60),
        ("variant.instance_provision_timeout", hosting.provision_timeout_seconds, 300),
    ):
        if seconds is not None and not is_whole(seconds, least, 3600):
            yield Finding(location, f"{seconds} s", f"{duration(least)} to {duration(3600)}")


@rule("OPT112", _RESOURCES, advisory=True)
def _starts_in_time(hosting: Hosting) -> Iterator[Finding]:
    """A model starts in time: CloudFormation waits at most 160 minutes for an endpoint, and 120 for a component."""
    timeouts = (hosting.download_timeout_seconds, hosting.startup_timeout_seconds, hosting.provision_timeout_seconds)
    default = COMPONENT_STARTUP_SECONDS if hosting.serves_components else STARTUP_SECONDS
    defaults = (default, default, 0)
    seconds = [usual if chosen is None else chosen for chosen, usual in zip(timeouts, defaults, strict=True)]
    patience = _COMPONENT_TIMEOUT if hosting.serves_components else _ENDPOINT_TIMEOUT
    if timeouts != (None, None, None) and all(is_whole(wait, 0) for wait in seconds) and sum(seconds) > patience:
        fix = (
            f"Reduce the download, startup and provisioning timeouts to {duration(patience)} in total: if the model "
            "takes longer, the deployment fails although SageMaker continues"
        )
        yield Finding("variant.container_startup_timeout", f"{sum(seconds)} s", fix)


@rule("OPT107", f"{API}CreateEndpointConfig.html")
def _volumes_are_attached(hosting: Hosting) -> Iterator[Finding]:
    """Only attached volumes have a size and a KMS key: SageMaker rejects a volume size and a KMS key on types with
    NVMe disks, which the hardware encrypts with a key that is destroyed with the instance.
    """
    with_disks = ", ".join(sorted({row.name for row in hosting.rows if row.nvme_gb}))
    size = f"{hosting.volume_gib} GiB" if hosting.volume_gib is not None else None
    key = "a KMS key" if hosting.encrypted_volume else None
    for location, value in (("variant.volume_size", size), ("encryption_key", key)):
        if value is not None and with_disks:
            fix = f"leave {location} out, or replace {with_disks} with a type without NVMe disks"
            yield Finding(location, value, fix)
    if hosting.volume_gib is not None and not is_whole(hosting.volume_gib, 1, 512):
        yield Finding("variant.volume_size", size, "1 to 512 GiB", "a volume has a size of 1 to 512 GiB")


@rule("OPT108", f"{API}ProductionVariant.html")
def _machine_image_fits(hosting: Hosting) -> Iterator[Finding]:
    """The machine image has the accelerator's drivers: an image has drivers for either GPUs or Neuron devices."""
    version = hosting.ami_version
    kinds = {row.kind for row in hosting.rows}
    known = machine_images.by_name()
    fitting = [name for name, image in known.items() if not kinds or kinds == {image.kind}]
    if len(kinds) > 1 and hosting.container_amis and version is None:
        needed = ", ".join(hosting.container_amis)
        reason = f"a container needs {needed}, which is for GPUs, but the pools have two kinds of accelerators"
        fix = (
            "an endpoint for each kind of accelerator, or GPUs whose default machine image runs the container, such as "
            'Pool(instance_type="ml.g6.12xlarge", server=Server.lmi(container_version="0.36.0-lmi24"))'
        )
        yield Finding("instance_pools", ", ".join(hosting.instance_types), fix, reason)
    if version is not None and not is_token(version) and version not in fitting:
        reason = None if version in known else "SageMaker has no such machine image"
        fix = " or ".join(fitting) or "leave it out: the pools have two kinds of accelerators"
        yield Finding("variant.inference_ami_version", version, fix, reason)


@rule("OPT114", f"{GUIDE}inference-gpu-drivers.html", advisory=True)
def _machine_image_is_tested(use: MachineImageUse) -> Iterator[Finding]:
    """The machine image matches the container: AWS tests this container with another machine image."""
    version, needed = use.version, use.needed
    if version is not None and needed is not None and version != needed and not _mismatches(use):
        yield Finding(use.location, version, f"Leave it out to use {needed}")
    elif version is not None and version in machine_images.by_name() and not _mismatches(use):
        for name in dict.fromkeys(each.instance.name for each in use.containers if each.instance.kind == "gpu"):
            if not machine_images.is_named_for(version, instances.by_name()[name]):
                reason = f"no source says that {name} runs with this machine image"
                yield Finding(use.location, version, "Try it before you rely on it, or leave it out", reason)
    for container in use.containers if version is None else ():
        if machine_images.is_undocumented(container.cuda, container.instance):
            reason = (
                f"no source says on which machine image {container.instance.name} runs containers for CUDA "
                f"{container.cuda}, and the endpoint uses SageMaker's default"
            )
            fix = "Try the type before you rely on it, or use another instance family"
            yield Finding("instance_type", container.instance.name, fix, reason)


@rule("OPT241", f"{GUIDE}inference-gpu-drivers.html", advisory=True)
def _containers_share_a_cuda_release(use: MachineImageUse) -> Iterator[Finding]:
    """The containers of a variant have one major CUDA release: a variant has one machine image, and AWS tests
    containers for CUDA 12 and for CUDA 13 on different ones. On the machine image for CUDA 13, one container for
    CUDA 12.9 did not start (aws/deep-learning-containers#6187), but another one did.
    """
    releases: dict[str, str] = {}
    for container in use.containers:
        if container.instance.kind == "gpu" and container.cuda is not None:
            releases.setdefault(container.cuda.partition(".")[0], container.name)
    if len(releases) > 1:
        fix = "Serve them with containers for the same major release, or on two endpoints"
        yield Finding(use.location, " and ".join(releases.values()), fix)


@rule("OPT242", f"{GUIDE}inference-gpu-drivers.html")
def _the_driver_runs_the_containers(use: MachineImageUse) -> Iterator[Finding]:
    """The driver runs the containers: the containers do not start with an older NVIDIA driver, and have no logs."""
    for container, reason in _mismatches(use).items():
        image = use.version or str(use.needed)
        working = [
            name
            for name, each in machine_images.by_name().items()
            if each.driver is not None and container.mismatch(each.driver) is None
        ]
        fix = f"leave it out to use {container.needed}" if container.needed is not None else "leave it out"
        if use.version is None:
            fix = f"leave {container.instance.name} out, because another instance type or container needs {image}"
        elif container.needed is None and working:
            fix = f"leave it out, or {' or '.join(working)}"
        yield Finding(use.location, image, fix, f"{reason}, and this machine image has {use.driver}")


@rule("OPT258", f"{GUIDE}inference-gpu-drivers.html", advisory=True)
def _no_failure_with_the_driver_is_reported(use: MachineImageUse) -> Iterator[Finding]:
    """The driver is as new as the container's kernels: an older driver runs a container for the same major CUDA
    release, but not the kernels in it that the driver has to compile.
    """
    is_documented = use.driver is not None or use.version is None
    for container in use.containers if is_documented else ():
        if (report := container.reported_failure(use.driver)) is not None:
            reason = (
                f"such a container failed on {container.instance.family} with NVIDIA driver "
                f"{use.driver or machine_images.default_driver(container.instance)}, because the driver could not "
                f"compile its kernels ({report})"
            )
            working = newest(name for name, image in machine_images.by_name().items() if _runs_all(use, image.driver))
            newer = [f'variant=VariantOptions(inference_ami_version="{working}")'] if working is not None else []
            if use.version is None or not newer:
                newer.append("a container_version for CUDA 13, for which the endpoint chooses a newer machine image")
            fix = f"Set {', or '.join(newer)}"
            location = use.location if use.version else "server.container_version"
            yield Finding(location, use.version or container.name, fix, reason)


def _runs_all(use: MachineImageUse, driver: int | None) -> bool:
    """Return whether a driver runs all containers, as far as it is known."""
    return driver is not None and not any(
        each.mismatch(driver) or each.reported_failure(driver) for each in use.containers
    )


def _mismatches(use: MachineImageUse) -> dict[HostedContainer, str]:
    """Return the containers that the machine image's driver does not run, each with the reason."""
    driver = use.driver
    found = {each: each.mismatch(driver) for each in use.containers if driver is not None}
    return {container: reason for container, reason in found.items() if reason is not None}


@rule("OPT109", f"{API}ProductionVariantCapacityReservationConfig.html")
def _reservation_is_an_arn(hosting: Hosting) -> Iterator[Finding]:
    """A capacity reservation is given by its ARN: SageMaker identifies a reservation by its training plan's ARN."""
    reservation = hosting.capacity_reservation
    if reservation is None:
        return
    if not matches(RESERVATION, reservation.arn):
        yield Finding("variant.capacity_reservation.arn", reservation.arn, RESERVATION_EXAMPLE)
    if hosting.pooled and len(hosting.instance_types) > 1:
        reason = "a reservation covers one instance type, and SageMaker launches no instances outside it"
        fix = "either a reservation with one instance type, or pools"
        yield Finding("variant.capacity_reservation", "with instance_pools", fix, reason)


@rule("OPT111", f"{API}InstancePool.html")
def _pools_differ(hosting: Hosting) -> Iterator[Finding]:
    """At most five instance pools, of different types: SageMaker tries up to five pools in order, one per instance
    type.
    """
    if not hosting.pooled:
        return
    count = len(hosting.instance_types)
    if not 1 <= count <= _MOST_POOLS:
        yield Finding("instance_pools", f"{count} pools", f"1 to {_MOST_POOLS} pools")
    for index, name in enumerate(hosting.instance_types):
        if name in hosting.instance_types[:index]:
            yield Finding(f"instance_pools[{index}].instance_type", name, "a type that no earlier pool uses")


@rule("OPT116", f"{GUIDE}ssm-access.html")
def _sessions_reach_containers(hosting: Hosting) -> Iterator[Finding]:
    """Sessions need a network: SageMaker cannot open a session in a container with network isolation."""
    if not hosting.ssm_access:
        return
    if hosting.serves_components:
        # In the guide, the target of a session is a variant's instance, and Terraform's provider sends EnableSSMAccess
        # only for variants with a model (hashicorp/terraform-provider-aws, pull request 44977).
        reason = "SageMaker documents sessions for a variant's container, but not for inference components"
        yield Finding("variant.ssm_access", True, "inference_component=False, or leave it out", reason)
    elif hosting.is_isolated:
        yield Finding("variant.ssm_access", True, "network=NetworkOptions(isolation=False) for a test, or leave it out")


@rule("OPT117", f"{GUIDE}ssm-access.html", advisory=True)
def _sessions_are_for_tests(hosting: Hosting) -> Iterator[Finding]:
    """Sessions are for tests: with SSM access, SageMaker delays patches and the replacement of faulty instances by a
    day.
    """
    if hosting.ssm_access:
        fix = "Leave it out in production. AWS Support must first enable it for the account; otherwise endpoints fail"
        yield Finding("variant.ssm_access", True, fix)


@rule("OPT118", f"{API}ProductionVariantRoutingConfig.html", advisory=True)
def _containers_report_their_caches(hosting: Hosting) -> Iterator[Finding]:
    """KV_AWARE routing needs a container that supports it: SageMaker documents support only for its vLLM container."""
    others = [name for name in hosting.servers if name != VllmServer.name]
    if hosting.routing is not None and hosting.routing.strategy == "KV_AWARE" and others:
        yield Finding("variant.routing", others[0], "Use server=Server.vllm(), or Routing.prefix_aware()")


# The settings' classes enforce these rules.


@rule("OPT125", ScaleIn.rule_link)
def _release_is_in_range(_: Settings) -> Iterator[Finding]:
    """Scale-in settings are in range: SageMaker consolidates 1 to 100 instances at a time, 5 to 1,440 minutes after the
    endpoint's last change.
    """
    yield from ()


@rule("OPT126", Placement.rule_link)
def _placement_is_in_range(_: Settings) -> Iterator[Finding]:
    """Placement settings are in range: SageMaker spreads or packs copies, with a zone imbalance of 0 to 100 copies."""
    yield from ()


@rule("OPT127", f"{API}InferenceComponentSpecification.html")
def _specification_is_in_range(_: Settings) -> Iterator[Finding]:
    """A component's specification is in range: SageMaker reserves at least a quarter of a vCPU, and caching of the
    model's files and image is on or off.
    """
    yield from ()


@rule("OPT128", f"{API}ProductionVariantCoreDumpConfig.html")
def _core_dumps_have_a_place(_: Settings) -> Iterator[Finding]:
    """Core dumps have a destination: SageMaker writes them under one S3 URI of at most 512 characters."""
    yield from ()


@rule("OPT120", f"{API}DeploymentConfig.html")
def _steps_are_shares(hosting: Hosting) -> Iterator[Finding]:
    """An update's steps have valid sizes: a canary is at most 50% of the fleet, a linear step 10 to 50%, and a
    rolling batch 5 to 50%.
    """
    update = hosting.update
    least = _SMALLEST_STEP.get(update.strategy)
    size_name = "percent" if update.size_unit == "CAPACITY_PERCENT" else "instances"
    sizes = [(size_name, update.size, _LARGEST_STEP)] if least is not None else []
    if update.rollback_size is not None:
        sizes.append(("rollback_percent", update.rollback_size, 100))
    for name, size, most in sizes:
        if update.size_unit != "CAPACITY_PERCENT":
            if not is_whole(size, 1):
                yield Finding(f"update_policy.{name}", size, "a whole number, 1 or greater")
        elif not is_whole(size, least or 1, most):
            yield Finding(f"update_policy.{name}", f"{size}%", f"{least or 1} to {most}%")


@rule("OPT271", f"{API}CapacitySize.html")
def _a_fleet_has_room_for_the_step(step: StepOfFleet) -> Iterator[Finding]:
    """A step's instances are a share of a possible fleet: the limits of percentages also apply to a number of
    instances, and the step is too large or too small for every size of the fleet.
    """
    # TrafficRoutingConfig: "Value must be less than or equal to 50% of the variant's total instance count" (canary),
    # "10-50%" (linear); RollingUpdatePolicy: "between 5% to 50%".
    smallest, largest = _fleets(step)
    if is_whole(step.most, 1) and step.most < smallest:
        yield _wrong_step(step, step.most, "has at most")
    elif is_whole(step.fewest, 1) and step.fewest > largest:
        yield _wrong_step(step, step.fewest, "has at least")


@rule("OPT272", f"{API}CapacitySize.html", advisory=True)
def _the_fleet_has_room_for_the_step(step: StepOfFleet) -> Iterator[Finding]:
    """A step's instances are a share of the fleet: SageMaker refuses an update while the fleet is too small or too
    large for its steps.
    """
    smallest, largest = _fleets(step)
    is_refused = any(True for _ in _a_fleet_has_room_for_the_step(step))
    if is_whole(step.start, 1) and not smallest <= step.start <= largest and not is_refused:
        yield _wrong_step(step, step.start, "starts with")


def _fleets(step: StepOfFleet) -> tuple[int, int]:
    """Return the sizes of the smallest and the largest fleet that a step updates."""
    return math.ceil(100 * step.instances / _LARGEST_STEP), 100 * step.instances // _SMALLEST_STEP[step.strategy]


def _wrong_step(step: StepOfFleet, fleet: int, has: str) -> Finding:
    least = _SMALLEST_STEP[step.strategy]
    lowest, most = math.ceil(least * fleet / 100), _LARGEST_STEP * fleet // 100
    sizes = f"{lowest} to {most}" if lowest < most else f"{most}"
    fix = f"{sizes}, or percent=25 instead of instances"
    if most < 1:
        fix = "update_policy=UpdatePolicy.all_at_once(), or 2 instances or more and instances=1"
    counted = f"{fleet} instance{'s' if fleet > 1 else ''}"
    reason = f"the endpoint {has} {counted}, and a step is {least} to {_LARGEST_STEP}% of them"
    return Finding("update_policy.instances", step.instances, fix, reason)


@rule("OPT121", f"{API}DeploymentConfig.html")
def _times_are_in_range(hosting: Hosting) -> Iterator[Finding]:
    """An update's times are within limits: each wait is at most 1 hour, and the timeout is 10 minutes to 8 hours and
    longer than the waits.
    """
    update = hosting.update
    waits = {"bake_time": update.bake_seconds, "termination_wait": update.termination_wait_seconds}
    for name, seconds in waits.items():
        if not is_whole(seconds, 0, 3600):
            yield Finding(f"update_policy.{name}", f"{seconds} s", f"{duration(0)} to {duration(3600)}")
    timeout, fix = update.timeout_seconds, None
    if timeout is None:
        return
    if not is_whole(timeout, 600, _LONGEST_UPDATE_SECONDS):
        fix = f"{duration(600)} to {duration(_LONGEST_UPDATE_SECONDS)}"
    elif all(is_whole(seconds, 0) for seconds in waits.values()) and timeout <= sum(waits.values()):
        fix = f"more than {duration(sum(waits.values()))}, the total wait of a single step"
    if fix is not None:
        yield Finding("update_policy.timeout", f"{timeout} s", fix)


@rule("OPT122", f"{API}AutoRollbackConfig.html")
def _alarms_are_few(hosting: Hosting) -> Iterator[Finding]:
    """At most ten alarms roll back an update: SageMaker monitors at most ten alarms during an update."""
    if hosting.rollback_alarms > MOST_ROLLBACK_ALARMS:
        alarms = f"{hosting.rollback_alarms} alarms"
        yield Finding("update_policy.rollback_alarms", alarms, f"at most {MOST_ROLLBACK_ALARMS}")


@rule("OPT123", f"{GUIDE}deployment-guardrails.html", advisory=True)
def _fleet_has_steps(hosting: Hosting) -> Iterator[Finding]:
    """A stepwise update needs at least two instances: a step is at most half of the fleet."""
    update = hosting.update
    if update.strategy in _SMALLEST_STEP and hosting.initial_instance_count == 1:
        fix = "Use variant=VariantOptions(initial_instance_count=2), or update_policy=UpdatePolicy.all_at_once()"
        yield Finding("update_policy", update.strategy, fix)


@rule("OPT288", page("alarms"), advisory=True)
def _a_canary_can_reach_the_error_rate(hosting: Hosting) -> Iterator[Finding]:
    """A canary's failures can raise the alarm on the error rate: the alarm counts the requests of the old and the new
    instances together.
    """
    update, count = hosting.update, hosting.initial_instance_count
    if update.strategy != "CANARY" or hosting.rollback_alarms or not is_whole(update.size, 1) or not is_whole(count, 1):
        return
    in_percent = update.size_unit == "CAPACITY_PERCENT"
    # A step has at least one instance.
    instances = math.ceil(count * update.size / 100) if in_percent else update.size
    share = 100 * instances / count
    for alarm in hosting.rollback_alarms_of_its_own:
        if alarm.name != "error_rate" or not is_known(alarm.threshold) or share > alarm.threshold:
            continue
        location, value = ("percent", f"{update.size}%") if in_percent else ("instances", update.size)
        threshold = f"{share / 2:g}"
        fix = (
            f"Use a larger canary, or a lower threshold, alarms=Alarms(error_rate=AlarmSettings(threshold={threshold}))"
        )
        reason = (
            f"even if all its requests fail, they are {share:g}% of the endpoint's, and the alarm's threshold is more "
            f"than {alarm.threshold:g}%"
        )
        yield Finding(f"update_policy.{location}", value, fix, reason)


@rule("OPT124", f"{API}DeploymentConfig.html")
def _steps_fit_the_time(hosting: Hosting) -> Iterator[Finding]:
    """An update's steps fit its timeout: SageMaker rolls back an update that exceeds its timeout of at most 8 hours."""
    update = hosting.update
    bake, termination = update.bake_seconds, update.termination_wait_seconds
    steps, limit = _steps(update, hosting.initial_instance_count), update.timeout_seconds or _LONGEST_UPDATE_SECONDS
    if steps is None or not all(is_whole(wait, 0, 3600) for wait in (bake, termination)) or not is_whole(limit, 600):
        return
    waiting = steps * bake + termination
    if waiting >= limit:
        longest = (limit - termination - 1) // steps
        shorter = f", or a bake_time of at most {duration(longest)}, because launching instances also takes time"
        reason = f"the waits alone take {waiting / 60:g} minutes, but the update may take at most {limit / 60:g}"
        fix = f"fewer steps{shorter if longest > 0 else ''}"
        yield Finding("update_policy", f"{steps} steps of {bake} s", fix, reason)


def _steps(update: UpdateSettings, instances: int) -> int | None:
    """Return the number of steps, each with a bake time, in one update; None if the sizes are invalid."""
    if update.strategy in ("ALL_AT_ONCE", "CANARY"):
        return 1
    whole = 100 if update.size_unit == "CAPACITY_PERCENT" else instances
    return math.ceil(whole / update.size) if is_whole(update.size, 1) and is_whole(whole, 1) else None

"""Quotas of instances, the number of instances in use, and quotas of a training job's own numbers.

A quota has a name, such as ``ml.g5.12xlarge for endpoint usage``; only the service's list has its code. An update
provisions "the new fleet" beside the old one (developer guide, "Blue/Green Deployments"), and a rolling update launches
a batch. Reserved instances are not counted, because AWS does not document that they count against these quotas. AWS
does not document either which quota an optimization job counts against; SageMaker chooses its instances (developer
guide, "Create an inference optimization job"). A training job's runtime, volume and number of instances have quotas of
their own: developer guide, "Feature Processor restrictions, limits, and quotas" ("Longest run time for a training job -
432,000 seconds", "Maximum number of instances per training job - 20"). "Size of EBS volume for a training job instance"
is the name in Service Quotas, as accounts list it (1,024 GB by default); awslabs/graphstorm,
graphstorm-processing, reads the same quota of processing jobs by its name. A quota that is not listed limits nothing.
Sources: Service Quotas API reference, ListServiceQuotas (it does not list quotas "for which only the default values are
available") and ListAWSDefaultServiceQuotas; SageMaker API reference, errors of CreateEndpoint, UpdateEndpoint, and
CreateTrainingJob.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from ..jobs.sagemaker_jobs import is_not_found
from ..requests.preflight_properties import FleetNeed, PreflightProperties, TrainingNeed
from ..store.json_records import in_threads
from .context import Context
from .report import PreflightFinding, advice, problem

_NAME = "quota"
_SERVICE = "sagemaker"
_PAGE = 100
# The most endpoints and running jobs to count, so that the function's time suffices. If an account has more, the count
# is a lower bound.
_MOST_LOOKED_AT = 500
# The quotas of a single training job: its number, the unit, and what else works.
_OF_A_JOB: Mapping[str, tuple[Callable[[TrainingNeed], int | None], str, str]] = {
    "Longest run time for a training job": (
        lambda job: job.max_runtime_in_seconds,
        "seconds",
        "let it run for less (JobOptions(max_runtime=...))",
    ),
    "Maximum number of instances per training job": (
        lambda job: job.instance_count,
        "instances",
        "train on fewer instances (TrainingCompute(instance_count=...))",
    ),
    "Size of EBS volume for a training job instance": (
        lambda job: job.volume_gb,
        "GB",
        "if the model is smaller than assumed, record its size with `constructs-optim lock --model`",
    ),
}


def check_quotas(needs: PreflightProperties, context: Context) -> Iterator[PreflightFinding]:
    """Check quotas against the declared counts and the instances in use."""
    fleets = [fleet for fleet in needs.fleets if fleet.instance_count]
    jobs = [(job, _runs(job, context)) for job in needs.trainings]
    jobs = [(job, runs) for job, runs in jobs if runs is not False]
    names = {_quota(each) for fleet in fleets for each in fleet.instance_types}
    names |= {_training_quota(job) for job, _ in jobs}
    if not names:
        return
    quotas = _quotas(names | (_OF_A_JOB.keys() if jobs else set()), context)
    for name in sorted(names - quotas.keys()):
        yield advice(_NAME, f"Service Quotas does not list {name!r}", "look it up in the Service Quotas console")
    yield from _endpoints(fleets, quotas, context)
    yield from _trainings(jobs, quotas, context)
    yield from _numbers(jobs, quotas)


def advise_on_optimization_jobs(needs: PreflightProperties, _context: Context) -> Iterator[PreflightFinding]:
    """Advise on the quotas of optimization jobs, which no call can check."""
    counts = "an optimization job counts" if len(needs.optimization_jobs) == 1 else "optimization jobs count"
    yield advice(
        _NAME,
        f"AWS does not document which quota {counts} against, and SageMaker chooses the instances",
        "if a job fails with ResourceLimitExceeded, request an increase of the quota that the message names",
    )


def _endpoints(
    fleets: Sequence[FleetNeed], quotas: Mapping[str, float], context: Context
) -> Iterator[PreflightFinding]:
    used: Counter[str] | None = None
    for types, own in _grouped(fleets).items():
        certain, possible, updated = 0, 0, False
        for fleet in own:
            exists = _exists(fleet.endpoint_name, context)
            if not exists:
                certain += fleet.instance_count
            elif context.is_update:
                certain += fleet.batch_size
                updated = True
            else:
                possible += fleet.batch_size
        if not certain + possible or not any(_quota(name) in quotas for name in types):
            continue
        if used is None:
            used = _endpoint_instances(context)
        # If a type has no capacity, the next type takes over, so the endpoint fails only if no type has room.
        room = {name: quotas[_quota(name)] - used[name] for name in types if _quota(name) in quotas}
        fits = [name for name, free in room.items() if free >= certain]
        described = ", ".join(_described(_quota(name), quotas, used[name]) for name in room)
        endpoints = list(dict.fromkeys(fleet.endpoint_name for fleet in own))
        names, needs = ", ".join(endpoints), "needs" if len(endpoints) == 1 else "together need"
        both = " (an update launches new instances before the old ones end)" if len(fits) < len(room) else ""
        if len(room) == len(types) and not fits:
            yield problem(
                _NAME,
                f"{names} {needs} {_instances(certain)}{both if updated else ''}, but {described}",
                f"request a quota of at least {max(used[name] for name in room) + certain} in Service Quotas, or use "
                + ("UpdatePolicy.rolling(...)" if updated else "another instance type or fewer instances"),
            )
        elif len(fits) < len(room):
            yield advice(
                _NAME,
                f"{names} {needs} {_instances(certain)}, but {described}: only {', '.join(fits)} has room",
                "request an increase in Service Quotas if you need the other types",
            )
        elif all(free < certain + possible for free in room.values()):
            yield advice(
                _NAME,
                f"if this deployment changes what {names} serves, the update needs {_instances(certain + possible)} "
                f"beside the old ones, but {described}",
                "request an increase in Service Quotas before such an update, or use UpdatePolicy.rolling(...)",
            )


def _trainings(
    jobs: Sequence[tuple[TrainingNeed, bool | None]], quotas: Mapping[str, float], context: Context
) -> Iterator[PreflightFinding]:
    used: Counter[str] | None = None
    for name in sorted({_training_quota(job) for job, _ in jobs} & quotas.keys()):
        own = [(job, runs) for job, runs in jobs if _training_quota(job) == name]
        # A chain's jobs run one after the other, so the largest job decides.
        most = max(job.instance_count for job, _ in own)
        certain = max((job.instance_count for job, runs in own if runs), default=0)
        if most > quotas[name]:
            finding = problem if certain > quotas[name] else advice
            yield finding(
                _NAME,
                f"a training job needs {_instances(most)}, but {name!r} is {quotas[name]:g}",
                f"request a quota of {most} in Service Quotas, or train on another instance type (TrainingCompute)",
            )
            continue
        if used is None:
            used = _training_instances(context)
        if used[name] + most > quotas[name]:
            # Advice only: running jobs may end before this one starts.
            yield advice(
                _NAME,
                f"a training job needs {_instances(most)}, but {_described(name, quotas, used[name])} by running jobs",
                "wait until they have ended, or request an increase in Service Quotas",
            )


def _numbers(
    jobs: Sequence[tuple[TrainingNeed, bool | None]], quotas: Mapping[str, float]
) -> Iterator[PreflightFinding]:
    """Yield the numbers of single jobs that exceed their quotas."""
    for name, (number, unit, fix) in _OF_A_JOB.items():
        own = [
            (value, runs)
            for job, runs in jobs
            if (value := number(job)) is not None and value > quotas.get(name, value)
        ]
        if own:
            most = max(value for value, _ in own)
            finding = problem if any(runs for _, runs in own) else advice
            yield finding(
                _NAME,
                f"a training job needs {most:,} {unit}, but {name!r} is {quotas[name]:,g}",
                f"request a quota of {most} in Service Quotas, or {fix}",
            )


def _runs(job: TrainingNeed, context: Context) -> bool | None:
    """Return whether a job will run, because the store lacks its artifact; None if the artifact key is unknown."""
    if job.artifact_key is None:
        return None
    manifest = f"artifacts/{job.artifact_key}/manifest.json"
    try:
        listed = context.client("s3").list_objects_v2(Bucket=job.bucket, Prefix=manifest, MaxKeys=1)
    except ClientError:
        # The store's own check reports the problem.
        return None
    return not listed.get("Contents")


def _quotas(names: Collection[str], context: Context) -> dict[str, float]:
    """Return the quotas' values by name, with AWS's default for a quota without its own value."""
    found: dict[str, float] = {}
    client = context.client("service-quotas")
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        pages = client.get_paginator(operation).paginate(ServiceCode=_SERVICE, PaginationConfig={"PageSize": _PAGE})
        for page in pages:
            for quota in page["Quotas"]:
                if (name := quota.get("QuotaName")) in names and "Value" in quota:
                    found.setdefault(name, float(quota["Value"]))
            if len(found) == len(names):
                return found
    return found


def _exists(endpoint_name: str, context: Context) -> bool:
    try:
        endpoint = context.client("sagemaker").describe_endpoint(EndpointName=endpoint_name)
    except ClientError as error:
        if is_not_found(error):
            return False
        raise
    return endpoint["EndpointStatus"] not in ("Failed", "Deleting")


def _endpoint_instances(context: Context) -> Counter[str]:
    """Return the number of instances of all endpoints in the account and Region, by instance type."""
    sagemaker = context.client("sagemaker")
    pages = sagemaker.get_paginator("list_endpoints").paginate(PaginationConfig={"PageSize": _PAGE})
    endpoints = (endpoint for page in pages for endpoint in page["Endpoints"])
    # The instances of an endpoint that is being deleted end within minutes.
    names = [
        each["EndpointName"] for each in islice(endpoints, _MOST_LOOKED_AT) if each["EndpointStatus"] != "Deleting"
    ]
    used: Counter[str] = Counter()
    for counted in in_threads(lambda name: _instances_of(sagemaker, name), names):
        used.update(counted)
    return used


def _instances_of(sagemaker: Any, name: str) -> Counter[str]:
    used: Counter[str] = Counter()
    try:
        endpoint = sagemaker.describe_endpoint(EndpointName=name)
        pending = endpoint.get("PendingDeploymentSummary", {})
        variants = [(endpoint["EndpointConfigName"], each) for each in _variants(endpoint)]
        variants += [(pending["EndpointConfigName"], each) for each in _variants(pending)]
        types: dict[str, dict[str, str]] = {}
        for config, variant in variants:
            pools = variant.get("InstancePools")
            if pools:
                used.update({pool["InstanceType"]: pool.get("CurrentInstanceCount", 0) for pool in pools})
                continue
            if config not in types:
                types[config] = _types_of(sagemaker, config)
            instance_type = variant.get("InstanceType") or types[config].get(variant["VariantName"])
            if instance_type is not None:
                counts = (variant.get("CurrentInstanceCount") or 0, variant.get("DesiredInstanceCount") or 0)
                used[instance_type] += max(counts)
    except ClientError as error:
        # The endpoint was deleted after it was listed.
        if not is_not_found(error):
            raise
    return used


def _variants(of: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*of.get("ProductionVariants", ()), *of.get("ShadowProductionVariants", ())]


def _types_of(sagemaker: Any, config: str) -> dict[str, str]:
    described = sagemaker.describe_endpoint_config(EndpointConfigName=config)
    return {each["VariantName"]: each["InstanceType"] for each in _variants(described) if "InstanceType" in each}


def _training_instances(context: Context) -> Counter[str]:
    """Return the number of instances of running training jobs, by the quota that they count against."""
    sagemaker = context.client("sagemaker")
    paginator = sagemaker.get_paginator("list_training_jobs")
    pages = paginator.paginate(StatusEquals="InProgress", PaginationConfig={"PageSize": _PAGE})
    summaries = (summary for page in pages for summary in page["TrainingJobSummaries"])
    names = [each["TrainingJobName"] for each in islice(summaries, _MOST_LOOKED_AT)]
    used: Counter[str] = Counter()
    for job in in_threads(lambda name: sagemaker.describe_training_job(TrainingJobName=name), names):
        resources = job.get("ResourceConfig", {})
        if "InstanceType" in resources and "TrainingPlanArn" not in resources:
            spot = bool(job.get("EnableManagedSpotTraining"))
            used[_quota(resources["InstanceType"], _job_usage(spot))] += resources.get("InstanceCount", 0)
    return used


def _grouped(fleets: Iterable[FleetNeed]) -> dict[tuple[str, ...], list[FleetNeed]]:
    groups: dict[tuple[str, ...], list[FleetNeed]] = {}
    for fleet in fleets:
        groups.setdefault(fleet.instance_types, []).append(fleet)
    return groups


def _training_quota(job: TrainingNeed) -> str:
    return _quota(job.instance_type, _job_usage(job.spot))


def _job_usage(spot: bool) -> str:
    return "spot training job usage" if spot else "training job usage"


def _quota(instance_type: str, usage: str = "endpoint usage") -> str:
    return f"{instance_type} for {usage}"


def _described(name: str, quotas: Mapping[str, float], used: int) -> str:
    return f"{name!r} is {quotas[name]:g}" + (f" with {used} in use" if used else "")


def _instances(count: int) -> str:
    return f"{count} instance{'s' if count != 1 else ''}"

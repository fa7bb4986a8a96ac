"""Quotas of instances, and how many instances are in use.

A quota has a name, ``ml.g5.12xlarge for endpoint usage``, whose code only the list has. During an update, "the new
fleet" is provisioned beside the old one (developer guide, "Blue/Green Deployments"), and a rolling update launches a
batch. Instances of a reservation are not counted: no document says that they count against these quotas. Which quota
an optimization job counts against is not documented; SageMaker chooses its instances (developer guide, "Create an
inference optimization job").
Sources: Service Quotas API reference, ListServiceQuotas (quotas "for which only the default values are available" are
not listed) and ListAWSDefaultServiceQuotas; API reference of SageMaker, errors of CreateEndpoint, UpdateEndpoint and
CreateTrainingJob.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
# Of endpoints, and of jobs that run: their instances are a lower bound where an account has more, so that a function's
# time is enough.
_MOST_LOOKED_AT = 500


def check_quotas(needs: PreflightProperties, context: Context) -> Iterator[PreflightFinding]:
    """Quotas at the declared counts, beside what is in use."""
    fleets = [fleet for fleet in needs.fleets if fleet.instance_count]
    jobs = [(job, _runs(job, context)) for job in needs.trainings]
    jobs = [(job, runs) for job, runs in jobs if runs is not False]
    names = {_quota(each) for fleet in fleets for each in fleet.instance_types}
    names |= {_training_quota(job) for job, _ in jobs}
    if not names:
        return
    quotas = _quotas(names, context)
    for name in sorted(names - quotas.keys()):
        yield advice(
            _NAME, f"Service Quotas lists no {name!r}", "look it up in the console, where the service's list is"
        )
    yield from _endpoints(fleets, quotas, context)
    yield from _trainings(jobs, quotas, context)


def advise_on_optimization_jobs(needs: PreflightProperties, context: Context) -> Iterator[PreflightFinding]:
    """What nobody can ask about optimization jobs."""
    del context
    counts = "an optimization job counts" if len(needs.optimization_jobs) == 1 else "optimization jobs count"
    yield advice(
        _NAME,
        f"no document says which quota {counts} against, and SageMaker chooses the instances",
        "if a job fails with ResourceLimitExceeded, its message names the quota: ask for more in Service Quotas",
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
        # Of several types, the next takes over where one has no capacity: only where none has room, all fails.
        room = {name: quotas[_quota(name)] - used[name] for name in types if _quota(name) in quotas}
        fits = [name for name, free in room.items() if free >= certain]
        described = ", ".join(_described(_quota(name), quotas, used[name]) for name in room)
        endpoints = list(dict.fromkeys(fleet.endpoint_name for fleet in own))
        names, needs = ", ".join(endpoints), "needs" if len(endpoints) == 1 else "together need"
        both = " (an update launches new instances before the old ones end)" if len(fits) < len(room) else ""
        if len(room) == len(types) and not fits:
            yield problem(
                _NAME,
                f"{names} {needs} {_instances(certain)}{both if updated else ''}, and {described}",
                f"ask for at least {max(used[name] for name in room) + certain} in Service Quotas, or use "
                + ("UpdatePolicy.rolling(...)" if updated else "another instance type or fewer instances"),
            )
        elif len(fits) < len(room):
            yield advice(
                _NAME,
                f"{names} {needs} {_instances(certain)}, and {described}: only {', '.join(fits)} has room",
                "ask for more in Service Quotas where these types are wanted",
            )
        elif all(free < certain + possible for free in room.values()):
            yield advice(
                _NAME,
                f"if this deployment changes what {names} serves, the update needs {_instances(certain + possible)} "
                f"beside the old ones, and {described}",
                "ask for more in Service Quotas before such an update, or use UpdatePolicy.rolling(...)",
            )


def _trainings(
    jobs: Sequence[tuple[TrainingNeed, bool | None]], quotas: Mapping[str, float], context: Context
) -> Iterator[PreflightFinding]:
    used: Counter[str] | None = None
    for name in sorted({_training_quota(job) for job, _ in jobs} & quotas.keys()):
        own = [(job, runs) for job, runs in jobs if _training_quota(job) == name]
        # A chain's jobs follow each other: what the largest needs, all need.
        most = max(job.instance_count for job, _ in own)
        certain = max((job.instance_count for job, runs in own if runs), default=0)
        if most > quotas[name]:
            finding = problem if certain > quotas[name] else advice
            yield finding(
                _NAME,
                f"a training job needs {_instances(most)}, and {name!r} is {quotas[name]:g}",
                f"ask for {most} in Service Quotas, or train on another instance type (TrainingCompute)",
            )
            continue
        if used is None:
            used = _training_instances(context)
        if used[name] + most > quotas[name]:
            # Jobs end: it may have room by the time it is started.
            yield advice(
                _NAME,
                f"a training job needs {_instances(most)}, and {_described(name, quotas, used[name])} by jobs that run "
                "now",
                "wait until they have ended, or ask for more in Service Quotas",
            )


def _runs(job: TrainingNeed, context: Context) -> bool | None:
    """Whether a job runs, for the store has no artifact of its key; None where the key is not known."""
    if job.artifact_key is None:
        return None
    manifest = f"artifacts/{job.artifact_key}/manifest.json"
    try:
        listed = context.client("s3").list_objects_v2(Bucket=job.bucket, Prefix=manifest, MaxKeys=1)
    except ClientError:
        # The check of the store says what is wrong with it.
        return None
    return not listed.get("Contents")


def _quotas(names: Collection[str], context: Context) -> dict[str, float]:
    """The values of quotas by their names; AWS's defaults of those that have no value of their own."""
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
    """The instances of all endpoints of account and region, by their types."""
    sagemaker = context.client("sagemaker")
    pages = sagemaker.get_paginator("list_endpoints").paginate(PaginationConfig={"PageSize": _PAGE})
    endpoints = (endpoint for page in pages for endpoint in page["Endpoints"])
    # Instances of an endpoint that is being deleted are gone in minutes.
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
        # Deleted since it was listed.
        if not is_not_found(error):
            raise
    return used


def _variants(of: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*of.get("ProductionVariants", ()), *of.get("ShadowProductionVariants", ())]


def _types_of(sagemaker: Any, config: str) -> dict[str, str]:
    described = sagemaker.describe_endpoint_config(EndpointConfigName=config)
    return {each["VariantName"]: each["InstanceType"] for each in _variants(described) if "InstanceType" in each}


def _training_instances(context: Context) -> Counter[str]:
    """The instances of the training jobs that run, by the quotas they count against."""
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

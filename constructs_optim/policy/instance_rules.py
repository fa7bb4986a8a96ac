"""Rules on the instance types of endpoints and jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from constructs_optim.templates.endpoints import variants
from constructs_optim.templates.resource_types import JOBS
from constructs_optim.templates.template import Resource, Template

from .registry import DEPLOY_TIME, Breach, policy_rule
from .settings import PlatformPolicy

_PATHS_IN_JOBS = (("Request", "DeploymentInstanceType"), ("Request", "ResourceConfig", "InstanceType"))


@policy_rule(
    "POL001",
    title="Endpoints run on allowed instance types",
    looks_at="each instance type of an endpoint configuration, those of its pools among them",
    reason="quotas, reservations and price agreements are made for some types",
)
def _endpoints_run_on_allowed_types(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for variant in variants(template):
        for location, instance_type in variant.instance_types:
            yield from _not_allowed(policy.allowed_instance_types or (), variant.config, location, instance_type)


@policy_rule(
    "POL002",
    title="Jobs run on allowed instance types",
    looks_at="the instance type that an optimization job is for, and that a training job runs on",
    reason="jobs have quotas and prices of their own",
)
def _jobs_run_on_allowed_types(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for job in template.of_type(*JOBS):
        for path in _PATHS_IN_JOBS:
            instance_type = job.get(*path)
            if instance_type is not None:
                location = ".".join(("Properties", *path))
                yield from _not_allowed(policy.allowed_job_instance_types or (), job, location, instance_type)


def _not_allowed(allowed: Sequence[str], resource: Resource, location: str, instance_type: Any) -> Iterator[Breach]:
    suggestion = f"one of {', '.join(allowed)}" if allowed else "none is allowed here"
    if not isinstance(instance_type, str):
        yield Breach(resource, location, instance_type, DEPLOY_TIME, f"a literal instance type: {suggestion}")
    elif not any(fnmatchcase(instance_type, pattern) for pattern in allowed):
        yield Breach(resource, location, instance_type, "the policy does not allow the instance type", suggestion)

"""What endpoints and jobs may run on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from .endpoints import DEPLOY_TIME, variants
from .registry import Breach, policy_rule
from .template import JOB_TYPES, DeclaredResource, Template

if TYPE_CHECKING:
    from .settings import PlatformPolicy

_PLACES_IN_JOBS = (("Request", "DeploymentInstanceType"), ("Request", "ResourceConfig", "InstanceType"))


@policy_rule(
    "POL001",
    setting="allowed_instance_types",
    title="Endpoints run on allowed instance types",
    looks_at="each instance type of an endpoint configuration, those of its pools among them",
    reason="quotas, reservations and price agreements are made for some types",
)
def _endpoints_run_on_allowed_types(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for variant in variants(template):
        for location, given in variant.instance_types:
            yield from _not_allowed(policy.allowed_instance_types or (), variant.config, location, given)


@policy_rule(
    "POL002",
    setting="allowed_job_instance_types",
    title="Jobs run on allowed instance types",
    looks_at="the instance type that an optimization job is for, and that a training job runs on",
    reason="jobs have quotas and prices of their own",
)
def _jobs_run_on_allowed_types(policy: PlatformPolicy, template: Template) -> Iterator[Breach]:
    for job in template.of_type(*JOB_TYPES):
        for path in _PLACES_IN_JOBS:
            given = job.get(*path)
            if given is not None:
                location = ".".join(("Properties", *path))
                yield from _not_allowed(policy.allowed_job_instance_types or (), job, location, given)


def _not_allowed(allowed: Sequence[str], resource: DeclaredResource, location: str, given: Any) -> Iterator[Breach]:
    works = f"one of {', '.join(allowed)}" if allowed else "none is allowed here"
    if not isinstance(given, str):
        yield Breach(resource, location, given, DEPLOY_TIME, f"a literal instance type: {works}")
    elif not any(fnmatchcase(given, pattern) for pattern in allowed):
        yield Breach(resource, location, given, "the policy does not allow the instance type", works)

"""Rules for an endpoint's shadow variant."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe import tasks
from constructs_optim.recipe.hosting.shadow import SHADOW_VARIANT, Shadow
from constructs_optim.recipe.tokens import is_number, is_token, is_whole

from .registry import API, GUIDE, Finding, rule

# Latency and errors are judged after 125 minutes with requests.
_LONGEST_SECONDS, _SHORTEST_SECONDS = 30 * 86_400, 3 * 3_600
_MOST_CHECKS = 7


@rule("OPT190", f"{GUIDE}shadow-tests-exclusions.html")
def _hosting_has_shadows(shadow: Shadow) -> Iterator[Finding]:
    """A shadow variant needs one variant with one model: SageMaker supports no other endpoint with a shadow variant."""
    hosting, fix = shadow.hosting, "a synchronous endpoint that serves one model from one instance type"
    if hosting.asynchronous:
        reason = "SageMaker does not support shadow variants with asynchronous inference"
        yield Finding("async_inference", "set", fix, reason)
    if hosting.serves_components:
        reason = "a shadow variant serves a model, but the variants of an inference component endpoint have none"
        yield Finding("inference_component", True, fix, reason)
    if hosting.pooled:
        reason = "AWS does not document shadow variants with instance pools"
        yield Finding("instance_pools", list(hosting.instance_types), fix, reason)
    if hosting.update.strategy == "ROLLING":
        reason = "SageMaker does not support rolling updates of endpoints with several variants"
        yield Finding("update_policy", "rolling", "UpdatePolicy.all_at_once() or UpdatePolicy.canary()", reason)
    if hosting.existing_configuration is not None:
        reason = "the endpoint keeps a configuration that CloudFormation does not manage"
        yield Finding("variant.existing_configuration", hosting.existing_configuration, "leave it out", reason)
    if not (task := tasks.find(shadow.task)).generates:
        reason = f"checks compare generated answers, and this model serves {task.title}"
        other = (
            "evaluate() with quality=QualityRequirement(min_agreement=...), which compares with the replaced version"
        )
        yield Finding("shadow", task.title, other, reason)
    if shadow.is_restarted:
        reason = "a restart would remove the shadow variant"
        yield Finding(
            "monitoring.speculation_cure", "restart", "no cure during the comparison with a candidate", reason
        )
    if hosting.variant_name == SHADOW_VARIANT:
        reason = "the shadow variant has this name, and SageMaker identifies variants, metrics and captures by name"
        yield Finding("variant.name", hosting.variant_name, "another name", reason)
    for location, name in (
        ("instance_type", hosting.instance_types[0]),
        ("candidate.instance_type", shadow.instance_type),
    ):
        if str(name).startswith("ml.inf1."):
            yield Finding(location, name, "another instance type", "SageMaker does not support shadow variants on Inf1")


@rule("OPT191", f"{API}DataCaptureConfig.html")
def _answers_are_captured(shadow: Shadow) -> Iterator[Finding]:
    """Data capture records a shadow's responses: the comparison uses the captured responses of both variants."""
    share = shadow.hosting.capture_percentage
    fix = "DataCapture(bucket=...), which stores requests and responses, including prompts and answers"
    if share is None:
        yield Finding("data_capture", None, fix)
    elif not shadow.captures:
        yield Finding("data_capture", "only requests or responses, or no JSON", fix)
    elif share == 0:
        yield Finding("data_capture.sampling_percentage", share, "1 to 100; 100 gives the most pairs to compare")


@rule("OPT192", f"{API}ShadowModelVariantConfig.html")
def _traffic_is_a_share(shadow: Shadow) -> Iterator[Finding]:
    """Share and duration of a shadow are valid: a shadow gets up to 100% of the requests, for 3 hours to 30 days."""
    if not is_number(shadow.sample_percent) or not 0 < shadow.sample_percent <= 100:
        yield Finding("sample_percent", shadow.sample_percent, "a number above 0, up to 100")
    if not _SHORTEST_SECONDS <= shadow.duration_seconds <= _LONGEST_SECONDS:
        yield Finding("duration", f"{shadow.duration_seconds} s", "Duration.hours(3) to Duration.days(30)")


@rule("OPT193", f"{GUIDE}endpoint-scaling-update.html")
def _promoted_instances_are_the_same(shadow: Shadow) -> Iterator[Finding]:
    """A promotion keeps a scaled variant's instance type: SageMaker cannot change the instance type of a variant that
    Application Auto Scaling scales.
    """
    if shadow.promotes and shadow.is_scaled and shadow.instance_type != shadow.hosting.instance_types[0]:
        fix = f"{shadow.hosting.instance_types[0]}, or promote=False"
        yield Finding("candidate.instance_type", shadow.instance_type, fix)


@rule("OPT194", f"{GUIDE}regions-quotas.html")
def _candidate_fits_beside(shadow: Shadow) -> Iterator[Finding]:
    """The instance quota covers the candidate: an update launches the new fleet while the old one still runs."""
    count, quota = shadow.instance_count, shadow.instance_quota
    if not is_whole(count, 1):
        yield Finding("candidate.instance_count", count, "a whole number, 1 or greater")
        return
    if shadow.hosting.capacity_reservation is not None:
        reason = "the reservation covers only the endpoint's own instances, so the candidate would run outside it"
        yield Finding("variant.capacity_reservation", "set", "an endpoint without a reservation", reason)
    if quota is None or not is_whole(shadow.hosting.initial_instance_count, 0):
        return
    production = shadow.hosting.initial_instance_count
    # The old and the new production fleet, and the shadow. If its type differs, the quota covers only the candidate.
    needed = count + (2 * production if shadow.instance_type == shadow.hosting.instance_types[0] else 0)
    if needed > quota:
        reason = f"the update that adds the shadow needs {needed} {shadow.instance_type} instances at the same time"
        yield Finding(
            "instance_quota", quota, f"a quota of {needed}, or another instance type for the candidate", reason
        )


@rule("OPT195", f"{GUIDE}shadow-tests.html")
def _checks_can_decide(shadow: Shadow) -> Iterator[Finding]:
    """The comparison can reach a decision: one run compares at most 16,000 pairs."""
    if not is_number(shadow.margin) or not 0 < shadow.margin < 1:
        yield Finding("margin", shadow.margin, "a share above 0, such as 0.02", "a margin is a share of the pairs")
    elif shadow.announced_pairs is None:
        reason = "a decision would need more than 16,000 pairs if a tenth of them differ"
        yield Finding("margin", shadow.margin, "a larger margin, such as 0.02, or fewer checks", reason)
    if not is_number(shadow.latency_tolerance) or shadow.latency_tolerance < 0:
        yield Finding("latency_tolerance", shadow.latency_tolerance, "a share such as 0.1")
    if not 1 <= len(shadow.checks) <= _MOST_CHECKS:
        yield Finding("checks", len(shadow.checks), f"1 to {_MOST_CHECKS} checks of responses")
    kinds = [check.kind for check in shadow.checks]
    if len(set(kinds)) != len(kinds):
        yield Finding("checks", kinds, "one check of each kind", "one kind of check is given twice")
    for index, check in enumerate(shadow.checks):
        if check.kind == "reference" and not is_token(check.reference_uri or ""):
            parts = (check.reference_uri or "").removeprefix("s3://").split("/", 1)
            if not (check.reference_uri or "").startswith("s3://") or len(parts) != 2 or not parts[1]:
                yield Finding(f"checks[{index}].uri", check.reference_uri, "s3://<bucket>/<key>.jsonl")


@rule("OPT196", f"{GUIDE}shadow-tests-best-practices.html", advisory=True)
def _shadow_has_some_load(shadow: Shadow) -> Iterator[Finding]:
    """A candidate gets all the load before promotion: latency is measured only at its share of the load."""
    if shadow.promotes and shadow.sample_percent < 100:
        yield Finding(
            "sample_percent", shadow.sample_percent, "Set sample_percent=100 to give it the full production load"
        )

"""Rules about shadows of an endpoint."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.hosting.shadow import SHADOW_VARIANT, Shadow
from constructs_optim.recipe.tokens import is_number, is_token, is_whole

from .registry import API, GUIDE, Finding, rule

_LONGEST_SECONDS, _SHORTEST_SECONDS = 30 * 86_400, 3_600
_MOST_CHECKS = 7


@rule("OPT190", f"{GUIDE}shadow-tests-exclusions.html")
def _hosting_has_shadows(shadow: Shadow) -> Iterator[Finding]:
    """A shadow goes with one variant of one model: SageMaker supports no shadow variant beside anything else."""
    hosting, fix = shadow.hosting, "a synchronous endpoint that serves its model from one instance type"
    if hosting.asynchronous:
        reason = "SageMaker supports no shadow variants with asynchronous inference"
        yield Finding("async_inference", "set", fix, reason)
    if hosting.serves_components:
        reason = "a shadow variant serves a model, and an endpoint of inference components has variants without one"
        yield Finding("inference_component", True, fix, reason)
    if hosting.pooled:
        reason = "no source says how a shadow variant goes with instance pools"
        yield Finding("instance_pools", list(hosting.instance_types), fix, reason)
    if hosting.update.strategy == "ROLLING":
        reason = "SageMaker supports no rolling deployments of endpoints with several variants"
        yield Finding("update_policy", "rolling", "UpdatePolicy.all_at_once() or canary(...)", reason)
    if hosting.existing_configuration is not None:
        reason = "the endpoint keeps a configuration that CloudFormation does not have"
        yield Finding("variant.existing_configuration", hosting.existing_configuration, "without it", reason)
    if shadow.is_restarted:
        reason = "a restart would take the shadow variant away"
        yield Finding("monitoring.speculation_cure", "restart", "no cure while a candidate is compared", reason)
    if hosting.variant_name == SHADOW_VARIANT:
        reason = "it is the shadow variant's, and SageMaker tells variants, their metrics and captures by their names"
        yield Finding("variant.name", hosting.variant_name, "another name", reason)
    for location, name in (
        ("instance_type", hosting.instance_types[0]),
        ("candidate.instance_type", shadow.instance_type),
    ):
        if str(name).startswith("ml.inf1."):
            yield Finding(location, name, "another instance type", "SageMaker supports no shadow variants with Inf1")


@rule("OPT191", f"{API}DataCaptureConfig.html")
def _answers_are_captured(shadow: Shadow) -> Iterator[Finding]:
    """A shadow's answers are captured: they are compared by what data capture keeps of both variants."""
    share = shadow.hosting.capture_percentage
    fix = "DataCapture(bucket=...), which keeps requests and responses; it holds prompts and answers"
    if share is None:
        yield Finding("data_capture", None, fix)
    elif not shadow.captures:
        yield Finding("data_capture", "only requests or responses, or no JSON", fix)
    elif share == 0:
        yield Finding("data_capture.sampling_percentage", share, "1 to 100; of both variants, 100 makes the most pairs")


@rule("OPT192", f"{API}ShadowModelVariantConfig.html")
def _traffic_is_a_share(shadow: Shadow) -> Iterator[Finding]:
    """A shadow gets a share of the requests for a time: 0 to 100 % of them, from an hour to 30 days."""
    if not is_number(shadow.sample_percent) or not 0 < shadow.sample_percent <= 100:
        yield Finding("sample_percent", shadow.sample_percent, "a number above 0, up to 100")
    if not _SHORTEST_SECONDS <= shadow.duration_seconds <= _LONGEST_SECONDS:
        yield Finding("duration", f"{shadow.duration_seconds:g} s", "Duration.hours(1) to Duration.days(30)")


@rule("OPT193", f"{GUIDE}endpoint-scaling-update.html")
def _promoted_instances_are_the_same(shadow: Shadow) -> Iterator[Finding]:
    """A promotion keeps the instances of a scaled variant: SageMaker changes no instance type that is scaled."""
    if shadow.promotes and shadow.is_scaled and shadow.instance_type != shadow.hosting.instance_types[0]:
        fix = f"{shadow.hosting.instance_types[0]}, or promote=False"
        yield Finding("candidate.instance_type", shadow.instance_type, fix)


@rule("OPT194", f"{GUIDE}regions-quotas.html")
def _candidate_fits_beside(shadow: Shadow) -> Iterator[Finding]:
    """The candidate fits beside the original: an update launches the new fleet while the old one still serves."""
    count, quota = shadow.instance_count, shadow.instance_quota
    if not is_whole(count, 1):
        yield Finding("candidate.instance_count", count, "a whole number from 1 on")
        return
    if shadow.hosting.capacity_reservation is not None:
        reason = "the reservation of the endpoint has its own instances, and the candidate would be launched beside it"
        yield Finding("variant.capacity_reservation", "set", "an endpoint without one", reason)
    if quota is None or not is_whole(shadow.hosting.initial_instance_count, 0):
        return
    production = shadow.hosting.initial_instance_count
    # Old and new fleet of production, and the shadow: of another type, the quota is for the candidate alone.
    needed = count + (2 * production if shadow.instance_type == shadow.hosting.instance_types[0] else 0)
    if needed > quota:
        reason = f"the update to the shadow takes {needed} instances of {shadow.instance_type} at once"
        yield Finding("instance_quota", quota, f"a quota of {needed}, or a candidate on another type", reason)


@rule("OPT195", f"{GUIDE}shadow-tests.html")
def _checks_can_decide(shadow: Shadow) -> Iterator[Finding]:
    """A shadow can be decided: 16,000 pairs are the most that a run compares."""
    if not is_number(shadow.margin) or not 0 < shadow.margin < 1:
        yield Finding("margin", shadow.margin, "a share above 0, such as 0.02", "a margin is a share of the pairs")
    elif shadow.announced_pairs is None:
        reason = "more than 16,000 pairs would be needed, with a tenth of them differing"
        yield Finding("margin", shadow.margin, "a wider margin, such as 0.02, or fewer checks", reason)
    if not is_number(shadow.latency_tolerance) or shadow.latency_tolerance < 0:
        yield Finding("latency_tolerance", shadow.latency_tolerance, "a share such as 0.1")
    if not 1 <= len(shadow.checks) <= _MOST_CHECKS:
        yield Finding("checks", len(shadow.checks), f"1 to {_MOST_CHECKS} checks of answers")
    kinds = [check.kind for check in shadow.checks]
    if len(set(kinds)) != len(kinds):
        yield Finding("checks", kinds, "one check of a kind", "a kind of check is there twice")
    for index, check in enumerate(shadow.checks):
        if check.kind == "reference" and not is_token(check.reference_uri or ""):
            parts = (check.reference_uri or "").removeprefix("s3://").split("/", 1)
            if not (check.reference_uri or "").startswith("s3://") or len(parts) != 2 or not parts[1]:
                yield Finding(f"checks[{index}].uri", check.reference_uri, "s3://<bucket>/<key>.jsonl")


@rule("OPT196", f"{GUIDE}shadow-tests-best-practices.html", advisory=True)
def _shadow_has_some_load(shadow: Shadow) -> Iterator[Finding]:
    """A promoted candidate has had all the load: its latency is compared at the share of the load that it gets."""
    if shadow.promotes and shadow.sample_percent < 100:
        yield Finding("sample_percent", shadow.sample_percent, "sample_percent=100 has it carry what production does")

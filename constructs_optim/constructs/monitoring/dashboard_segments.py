"""The segments of an endpoint's dashboard that tell of it live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from constructs_optim.recipe import Plan
from constructs_optim.recipe.tokens import is_known

from .dashboard_graph import BLUE, GREEN, GREY, OF_STATISTICS, ORANGE, PURPLE, RED, Line, Place, graph
from .dashboard_widget import GRID_COLUMNS, Segment, Widget, text
from .served_model import ServedModel

MOST_ALARMS = 100
"""Of one widget."""
_CONSOLE = "console.aws.amazon.com"
_CONSOLES = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
_PERCENTILES = ("p50", "p90", "p99")


@dataclass(frozen=True)
class JobHistory:
    """Where the handlers of jobs and artifacts log, and what of that is an endpoint's.

    Attributes:
        log_groups: the handlers' log groups; may be tokens.
        stack_id: of the stack that the handlers are of.
        logical_ids: of the custom resources that ask for its artifacts.
        artifact_keys: the keys of its artifacts; may be tokens.
    """

    log_groups: tuple[str, ...]
    stack_id: str
    logical_ids: tuple[str, ...]
    artifact_keys: tuple[str, ...]


@dataclass(frozen=True)
class ScalingRange:
    """What scaling holds an endpoint to: the fewest and most instances or copies, and targets by a metric's name."""

    fewest: int
    most: int
    targets: tuple[tuple[str, float], ...] = ()


def recipe_text(plan: Plan | None, instance_types: Sequence[str]) -> str:
    """What is served, and on what, in a line."""
    described = plan.description if plan is not None else {}
    facts = [described.get("Model"), ", ".join(described.get("Techniques", ())), ", ".join(instance_types)]
    return " · ".join(str(fact) for fact in facts if fact)


def heading(
    served: ServedModel,
    place: Place,
    plan: Plan | None,
    instance_types: Sequence[str],
    *,
    bucket: str | None,
    stack_region: str,
) -> Segment:
    """What is served on what, and where to look further. The console's host follows from ``stack_region``."""
    console = next((host for start, host in _CONSOLES.items() if stack_region.startswith(start)), _CONSOLE)
    name = (
        f"{served.endpoint_name} / {served.inference_component_name}" if served.is_component else served.endpoint_name
    )
    lines = [f"# {name}", recipe_text(plan, instance_types)]
    if served.artifact_key is not None and (plan is None or plan.jobs):
        lines.append(f"artifact `{served.artifact_key}`")
    lines.append(" · ".join(f"[{label}]({link})" for label, link in _links(served, place.region, console, bucket)))
    return Segment("heading", None, (text("heading", "\n\n".join(line for line in lines if line), height=3),))


def _links(served: ServedModel, region: str, console: str, bucket: str | None) -> list[tuple[str, str]]:
    log_group = (
        f"InferenceComponents$252F{served.inference_component_name}"
        if served.is_component
        else f"Endpoints$252F{served.endpoint_name}"
    )
    found = [
        ("endpoint", f"https://{console}/sagemaker/home?region={region}#/endpoints/{served.endpoint_name}"),
        (
            "container logs",
            f"https://{console}/cloudwatch/home?region={region}#logsV2:log-groups/log-group/"
            f"$252Faws$252Fsagemaker$252F{log_group}",
        ),
    ]
    if bucket is not None and served.artifact_key is not None:
        prefix = f"artifacts/{served.artifact_key}/"
        found.append(("artifact", f"https://{console}/s3/buckets/{bucket}?region={region}&prefix={prefix}"))
    return found


def alarms(arns: Sequence[str]) -> Segment:
    """The state of alarms, up to a hundred a widget."""
    groups = [arns[first : first + MOST_ALARMS] for first in range(0, len(arns), MOST_ALARMS)]
    widgets = [
        Widget(
            f"alarms_{number}" if number > 1 else "alarms",
            "alarm",
            {"title": "Alarms", "alarms": list(group)},
            GRID_COLUMNS,
            min(2 + len(group) // 4, 8),
        )
        for number, group in enumerate(groups, 1)
    ]
    return Segment("alarms_heading", "Alarms", tuple(widgets))


def traffic(served: ServedModel, place: Place, latency_alarm_seconds: float | None = None) -> Segment:
    """Requests, and how long they take; with the latency that raises an alarm, where there is one."""
    alarmed = [] if latency_alarm_seconds is None else [(latency_alarm_seconds * 1000, "alarm on p99")]
    owner = "per copy" if served.is_component else "per instance"
    latencies = [Line("model_latency", statistic, color=OF_STATISTICS[statistic]) for statistic in _PERCENTILES]
    overheads = [Line("overhead_latency", statistic, color=OF_STATISTICS[statistic]) for statistic in _PERCENTILES]
    chunks = [Line("first_chunk_latency", statistic, color=OF_STATISTICS[statistic]) for statistic in _PERCENTILES]
    invocations = [
        Line("invocations", label="all", color=BLUE),
        Line("invocations_per_copy", label=owner, color=GREEN),
    ]
    width = 6 if not served.is_component else 8
    return Segment(
        "traffic",
        "Traffic and latency",
        (
            *graph(served, place, "invocations", "Invocations", invocations, width=width),
            *graph(served, place, "model_latency", "Model latency", latencies, width=width, thresholds=alarmed),
            *graph(served, place, "overhead_latency", "Overhead latency", overheads, width=width),
            *graph(served, place, "first_chunk_latency", "Time to first chunk (streaming)", chunks, width=width),
        ),
    )


def concurrency(served: ServedModel, place: Place, scaling: ScalingRange | None) -> Segment:
    """Requests at once, and requests a second."""
    targets = [(value, "scaling target") for name, value in _targets(scaling) if name == "concurrent_requests"]
    title = f"Concurrent requests per {'copy' if served.is_component else 'instance'}"
    requests = [
        Line("concurrent_requests", "Maximum", color=BLUE),
        Line("concurrent_requests", "Minimum", color=GREY),
    ]
    return Segment(
        "concurrency",
        "Concurrency and throughput",
        (
            *graph(served, place, "concurrent_requests", title, requests, width=12, thresholds=targets),
            *graph(
                served,
                place,
                "throughput",
                "Throughput",
                [Line("invocations_per_second", label="requests", color=GREEN)],
                width=12,
            ),
        ),
    )


def errors(served: ServedModel, place: Place) -> Segment:
    """What went wrong."""
    counts = [
        Line("invocation_4xx_errors", color=ORANGE),
        Line("invocation_5xx_errors", color=RED),
        Line("invocation_model_errors", color=PURPLE),
        Line("mid_stream_errors", color=GREY),
        Line("no_capacity_failures", color=BLUE),
    ]
    return Segment(
        "errors",
        "Errors",
        (
            *graph(served, place, "errors", "Errors", counts, width=12),
            *graph(served, place, "error_rate", "Error rate", [Line("error_rate", color=RED)], width=12),
        ),
    )


def accelerators(served: ServedModel, place: Place) -> Segment:
    """How busy and how full the GPUs are; no widgets for accelerators that SageMaker publishes nothing of."""
    utilization = [Line("gpu_utilization", name, color=OF_STATISTICS[name]) for name in ("Average", "Maximum")]
    memory = [
        *(Line("gpu_memory_utilization", name, color=OF_STATISTICS[name]) for name in ("Average", "Maximum")),
        Line("gpu_reservation", label="reserved by components", color=GREY),
    ]
    highest = _share_of_whole(served)
    return Segment(
        "accelerators",
        "Accelerators",
        (
            *graph(served, place, "gpu_utilization", "GPU utilization", utilization, width=12, highest=highest),
            *graph(served, place, "gpu_memory_utilization", "GPU memory", memory, width=12, highest=highest),
        ),
    )


def host(served: ServedModel, place: Place) -> Segment:
    """The instances themselves."""
    memory = [
        Line("memory_utilization", label="used", color=BLUE),
        Line("memory_reservation", label="reserved by components", color=GREY),
    ]
    return Segment(
        "host",
        "Instances",
        (
            *graph(
                served,
                place,
                "cpu_utilization",
                "CPU",
                [Line("cpu_utilization", name, color=OF_STATISTICS[name]) for name in ("Average", "Maximum")],
                highest=_share_of_whole(served),
            ),
            *graph(served, place, "memory_utilization", "Memory", memory, highest=100),
            *graph(
                served,
                place,
                "disk_utilization",
                "Disk",
                [Line("disk_utilization", "Maximum", color=BLUE)],
                highest=100,
            ),
        ),
    )


def scaling(served: ServedModel, place: Place, range_: ScalingRange | None) -> Segment:
    """How many instances, or copies, there are; a deployment shows as old and new ones at the same time."""
    # A limit that is known only at deployment cannot be drawn: a number within a text has no placeholder.
    given = [] if range_ is None else [(range_.fewest, "scaling minimum"), (range_.most, "scaling maximum")]
    limits = [(limit, name) for limit, name in given if is_known(limit)]
    copies = [Line("copies", label="copies", color=GREEN)]
    instances = [Line("instances", label="instances", color=BLUE)]
    drawn = (
        (
            *graph(served, place, "copies", "Copies", copies, width=12, thresholds=limits),
            *graph(served, place, "instances", "Instances", instances, width=12),
        )
        if served.is_component
        else graph(served, place, "instances", "Instances", instances, width=12, thresholds=limits)
    )
    load = [Line("invocations_per_copy", label="invocations", color=BLUE)]
    load_targets = [
        (value, "scaling target a minute") for name, value in _targets(range_) if name == "invocations_per_copy"
    ]
    title = f"Invocations per {'copy' if served.is_component else 'instance'}"
    extra = (
        ()
        if served.is_component
        else graph(served, place, "invocations_per_copy", title, load, width=12, thresholds=load_targets)
    )
    return Segment("scaling", "Scaling activity", (*drawn, *extra))


def cost(served: ServedModel, place: Place) -> Segment:
    """What the running instances cost; no widgets where no price was stated."""
    if place.price is None:
        return Segment("cost", None, ())
    hourly = [Line("cost_per_hour", label="all instances", color=GREEN)]
    requests = [Line("cost_per_thousand_invocations", label="1,000 requests", color=GREEN)]
    return Segment(
        "cost",
        "Cost",
        (
            *graph(served, place, "cost_per_hour", "Cost per hour", hourly, width=12),
            *graph(served, place, "cost_per_request", "Cost per 1,000 requests", requests, width=12),
        ),
    )


def history(known: JobHistory, region: str) -> Segment:
    """What jobs and artifacts went through, from the handlers' logs (docs/observability.md)."""
    sources = " | ".join(f"SOURCE '{group}'" for group in known.log_groups)
    ids = ", ".join(f'"{logical_id}"' for logical_id in known.logical_ids)
    keys = ", ".join(f'"{key}"' for key in known.artifact_keys)
    of_resources = f'(stack_id = "{known.stack_id}" and logical_id in [{ids}])'
    events = (
        "fields @timestamp, service, message, status, job_name, coalesce(reason, failure) as why",
        f"filter {of_resources} or artifact_key in [{keys}]",
        "sort @timestamp desc",
        "limit 100",
    )
    requests = (
        f'filter message = "received" and request_type != "Delete" and {of_resources}',
        "stats count(*) as deployments by bin(1h)",
    )
    return Segment(
        "history",
        "Jobs, artifacts and deployments",
        (
            _log("job_history", "Job and artifact history", sources, events, region, "table", width=16),
            _log("deployments", "Deployments that changed the recipe", sources, requests, region, "bar"),
        ),
    )


def _log(
    name: str, title: str, sources: str, lines: Sequence[str], region: str, view: str, *, width: int = 8
) -> Widget:
    query = f"{sources} | " + "\n| ".join(lines)
    return Widget(name, "log", {"title": title, "region": region, "query": query, "view": view}, width, 6)


def _share_of_whole(served: ServedModel) -> float | None:
    """100 where percentages are of a whole; None where they are added up over an unknown number of GPUs or vCPUs."""
    return 100 if served.is_component or served.instance_type is not None else None


def _targets(range_: ScalingRange | None) -> tuple[tuple[str, float], ...]:
    return tuple((name, value) for name, value in range_.targets if is_known(value)) if range_ is not None else ()


def component(name: str, served: ServedModel, place: Place) -> tuple[Segment, ...]:
    """One of several inference components: all that it does not share with the others."""
    shown = (traffic(served, place), concurrency(served, place, None), errors(served, place))
    return tuple(
        Segment(
            f"{name}_{segment.name}",
            f"{name}: {segment.title}",
            tuple(replace(widget, name=f"{name}_{widget.name}") for widget in segment.widgets),
        )
        for segment in shown
    )

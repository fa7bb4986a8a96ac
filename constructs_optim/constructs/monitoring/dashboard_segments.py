"""The segments of an endpoint's dashboard with its live metrics, its alarms and its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from constructs_optim.recipe import Plan
from constructs_optim.recipe.tokens import is_known

from .dashboard_graph import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, GraphContext, Line, statistics
from .dashboard_widget import GRID_COLUMNS, Segment, Widget, text
from .served_model import ServedModel

MOST_ALARMS = 100
"""Of one widget."""
_CONSOLE = "console.aws.amazon.com"
_CONSOLES = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
_PERCENTILES = ("p50", "p90", "p99")


@dataclass(frozen=True)
class JobHistory:
    """Where the handlers of jobs and artifacts log, and by what an endpoint's lines are found.

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
    """The fewest and most instances or copies that scaling keeps, and its targets by a metric's name."""

    fewest: int
    most: int
    targets: tuple[tuple[str, float], ...] = ()


def recipe_text(plan: Plan | None, instance_types: Sequence[str]) -> str:
    """Model, techniques and instance types in a line."""
    described = plan.description if plan is not None else {}
    parts = [described.get("Model"), ", ".join(described.get("Techniques", ())), ", ".join(instance_types)]
    return " · ".join(str(part) for part in parts if part)


def heading(
    context: GraphContext, plan: Plan | None, instance_types: Sequence[str], *, bucket: str | None, stack_region: str
) -> Segment:
    """Model and instances, and links to the console, whose host follows from ``stack_region``."""
    served = context.served
    console = next((host for start, host in _CONSOLES.items() if stack_region.startswith(start)), _CONSOLE)
    component = f" / {served.inference_component_name}" if served.is_component else ""
    lines = [f"# {served.endpoint_name}{component}", recipe_text(plan, instance_types)]
    if served.artifact_key is not None and (plan is None or plan.jobs):
        lines.append(f"artifact `{served.artifact_key}`")
    lines.append(" · ".join(f"[{label}]({link})" for label, link in _links(served, context.region, console, bucket)))
    return Segment("heading", None, (text("heading", "\n\n".join(line for line in lines if line), height=3),))


def _links(served: ServedModel, region: str, console: str, bucket: str | None) -> list[tuple[str, str]]:
    log_group = (
        f"InferenceComponents$252F{served.inference_component_name}"
        if served.is_component
        else f"Endpoints$252F{served.endpoint_name}"
    )
    links = [
        ("endpoint", f"https://{console}/sagemaker/home?region={region}#/endpoints/{served.endpoint_name}"),
        (
            "container logs",
            f"https://{console}/cloudwatch/home?region={region}#logsV2:log-groups/log-group/"
            f"$252Faws$252Fsagemaker$252F{log_group}",
        ),
    ]
    if bucket is not None and served.artifact_key is not None:
        prefix = f"artifacts/{served.artifact_key}/"
        links.append(("artifact", f"https://{console}/s3/buckets/{bucket}?region={region}&prefix={prefix}"))
    return links


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


def _segment(name: str, title: str, *widgets: Widget | None) -> Segment:
    return Segment(name, title, tuple(widget for widget in widgets if widget is not None))


def traffic(context: GraphContext, latency_alarm_seconds: float | None = None) -> Segment:
    """Requests and their latency; with the latency that raises an alarm, where there is one."""
    is_component = context.served.is_component
    thresholds = [] if latency_alarm_seconds is None else [(latency_alarm_seconds * 1000, "alarm on p99")]
    invocations = [
        Line("invocations", label="all", color=BLUE),
        Line("invocations_per_copy", label="per copy" if is_component else "per instance", color=GREEN),
    ]
    model = statistics("model_latency", *_PERCENTILES)
    overhead = statistics("overhead_latency", *_PERCENTILES)
    first_chunk = statistics("first_chunk_latency", *_PERCENTILES)
    width = 8 if is_component else 6
    return _segment(
        "traffic",
        "Traffic and latency",
        context.graph("invocations", "Invocations", invocations, width=width),
        context.graph("model_latency", "Model latency", model, width=width, thresholds=thresholds),
        context.graph("overhead_latency", "Overhead latency", overhead, width=width),
        context.graph("first_chunk_latency", "Time to first chunk (streaming)", first_chunk, width=width),
    )


def concurrency(context: GraphContext, scaling_range: ScalingRange | None) -> Segment:
    """Requests at once, and requests a second."""
    requests = [
        Line("concurrent_requests", "Maximum", color=BLUE),
        Line("concurrent_requests", "Minimum", color=GREY),
    ]
    throughput = [Line("invocations_per_second", label="requests", color=GREEN)]
    targets = _targets(scaling_range, "concurrent_requests", "scaling target")
    title = f"Concurrent requests per {_unit(context)}"
    return _segment(
        "concurrency",
        "Concurrency and throughput",
        context.graph("concurrent_requests", title, requests, width=12, thresholds=targets),
        context.graph("throughput", "Throughput", throughput, width=12),
    )


def errors(context: GraphContext) -> Segment:
    """Counts and rate of errors."""
    counts = [
        Line("invocation_4xx_errors", color=ORANGE),
        Line("invocation_5xx_errors", color=RED),
        Line("invocation_model_errors", color=PURPLE),
        Line("mid_stream_errors", color=GREY),
        Line("no_capacity_failures", color=BLUE),
    ]
    return _segment(
        "errors",
        "Errors",
        context.graph("errors", "Errors", counts, width=12),
        context.graph("error_rate", "Error rate", [Line("error_rate", color=RED)], width=12),
    )


def accelerators(context: GraphContext) -> Segment:
    """How busy and how full the GPUs are; no widgets for accelerators that SageMaker publishes nothing of."""
    utilization = statistics("gpu_utilization", "Average", "Maximum")
    memory = [
        *statistics("gpu_memory_utilization", "Average", "Maximum"),
        Line("gpu_reservation", label="reserved by components", color=GREY),
    ]
    highest = _share_of_whole(context.served)
    return _segment(
        "accelerators",
        "Accelerators",
        context.graph("gpu_utilization", "GPU utilization", utilization, width=12, highest=highest),
        context.graph("gpu_memory_utilization", "GPU memory", memory, width=12, highest=highest),
    )


def host(context: GraphContext) -> Segment:
    """CPU, memory and disk of the instances."""
    cpu = statistics("cpu_utilization", "Average", "Maximum")
    memory = [
        Line("memory_utilization", label="used", color=BLUE),
        Line("memory_reservation", label="reserved by components", color=GREY),
    ]
    disk = [Line("disk_utilization", "Maximum", color=BLUE)]
    return _segment(
        "host",
        "Instances",
        context.graph("cpu_utilization", "CPU", cpu, highest=_share_of_whole(context.served)),
        context.graph("memory_utilization", "Memory", memory, highest=100),
        context.graph("disk_utilization", "Disk", disk, highest=100),
    )


def scaling(context: GraphContext, scaling_range: ScalingRange | None) -> Segment:
    """How many instances, or copies, there are; a deployment shows as old and new ones at the same time."""
    limits: list[tuple[float, str]] = []
    if scaling_range is not None:
        limits = [(scaling_range.fewest, "scaling minimum"), (scaling_range.most, "scaling maximum")]
    # A limit that is known only at deployment cannot be drawn: a number within a text has no placeholder.
    limits = [(limit, label) for limit, label in limits if is_known(limit)]
    copies = [Line("copies", label="copies", color=GREEN)]
    instances = [Line("instances", label="instances", color=BLUE)]
    if context.served.is_component:
        return _segment(
            "scaling",
            "Scaling activity",
            context.graph("copies", "Copies", copies, width=12, thresholds=limits),
            context.graph("instances", "Instances", instances, width=12),
        )
    load = [Line("invocations_per_copy", label="invocations", color=BLUE)]
    targets = _targets(scaling_range, "invocations_per_copy", "scaling target a minute")
    return _segment(
        "scaling",
        "Scaling activity",
        context.graph("instances", "Instances", instances, width=12, thresholds=limits),
        context.graph("invocations_per_copy", "Invocations per instance", load, width=12, thresholds=targets),
    )


def cost(context: GraphContext) -> Segment:
    """The price of the running instances; no widgets where no price was stated."""
    if context.price is None:
        return _segment("cost", "Cost")
    hourly = [Line("cost_per_hour", label="all instances", color=GREEN)]
    requests = [Line("cost_per_thousand_invocations", label="1,000 requests", color=GREEN)]
    return _segment(
        "cost",
        "Cost",
        context.graph("cost_per_hour", "Cost per hour", hourly, width=12),
        context.graph("cost_per_request", "Cost per 1,000 requests", requests, width=12),
    )


def history(jobs: JobHistory, region: str) -> Segment:
    """The events of jobs and artifacts, from the handlers' logs (docs/observability.md)."""
    sources = " | ".join(f"SOURCE '{group}'" for group in jobs.log_groups)
    ids = ", ".join(f'"{logical_id}"' for logical_id in jobs.logical_ids)
    keys = ", ".join(f'"{key}"' for key in jobs.artifact_keys)
    of_resources = f'(stack_id = "{jobs.stack_id}" and logical_id in [{ids}])'
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


def _unit(context: GraphContext) -> str:
    return "copy" if context.served.is_component else "instance"


def _share_of_whole(served: ServedModel) -> float | None:
    """100 where percentages are of a whole; None where they are added up over an unknown number of GPUs or vCPUs."""
    return 100 if served.is_component or served.instance_type is not None else None


def _targets(scaling_range: ScalingRange | None, metric: str, label: str) -> list[tuple[float, str]]:
    targets = scaling_range.targets if scaling_range is not None else ()
    return [(value, label) for name, value in targets if name == metric and is_known(value)]


def component(name: str, context: GraphContext) -> tuple[Segment, ...]:
    """One of several inference components: all that it does not share with the others."""
    shown = (traffic(context), concurrency(context, None), errors(context))
    return tuple(
        Segment(
            f"{name}_{segment.name}",
            f"{name}: {segment.title}",
            tuple(replace(widget, name=f"{name}_{widget.name}") for widget in segment.widgets),
        )
        for segment in shown
    )

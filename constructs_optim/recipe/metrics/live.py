"""What SageMaker publishes of a running endpoint, and what follows from it.

Names, units and dimensions are those of Amazon SageMaker AI's developer guide: "Amazon SageMaker AI metrics in Amazon
CloudWatch", and "Metric name mapping: legacy to OTel" for which of them an inference component has. That each instance
reports its utilization separately is said there of CPUUtilization; that the number of reports is the number of
instances follows, and was not seen on an account.
"""

from __future__ import annotations

from constructs_optim.recipe import pricing

from .definition import (
    BY_COMPONENT,
    BY_VARIANT,
    MetricDefinition,
    Part,
    Series,
    Summed,
    Unit,
)

PUBLISHING_SECONDS = 60
"""How often instances report their utilization, unless ``MetricsConfig`` of the endpoint's configuration differs."""

_CLOUDWATCH = "https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html"
_STREAMING = "https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-detailed-observability-metric-mapping.html"
_QUEUE = "https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html"
_ZERO = "https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html"
_INVOCATIONS = "AWS/SageMaker"
_INSTANCES = "/aws/sagemaker/Endpoints"
_COMPONENTS = "/aws/sagemaker/InferenceComponents"


def _count(
    name: str, title: str, part: Part, definition: str, variant: str | None, component: str | None, **given: str
) -> MetricDefinition:
    return MetricDefinition(
        name=name,
        title=title,
        part=part,
        definition=definition,
        statistic=given.get("statistic", "Sum"),
        published_unit=Unit.NONE,
        shown_unit=Unit.COUNT,
        variant=Series(_INVOCATIONS, variant, BY_VARIANT) if variant else None,
        component=Series(_INVOCATIONS, component, BY_COMPONENT) if component else None,
        source=given.get("source", _CLOUDWATCH),
    )


def _latency(name: str, title: str, metric: str, definition: str, *, of_component: bool = True) -> MetricDefinition:
    return MetricDefinition(
        name=name,
        title=title,
        part=Part.TRAFFIC,
        definition=definition,
        statistic="Average",
        published_unit=Unit.MICROSECONDS,
        shown_unit=Unit.MILLISECONDS,
        variant=Series(_INVOCATIONS, metric, BY_VARIANT),
        component=Series(_INVOCATIONS, metric, BY_COMPONENT) if of_component else None,
        source=_CLOUDWATCH if of_component else _STREAMING,
    )


def _percentage(
    name: str,
    title: str,
    part: Part,
    definition: str,
    *,
    variant: Series | None,
    component: Series | None,
    gpus_only: bool = False,
) -> MetricDefinition:
    return MetricDefinition(
        name=name,
        title=title,
        part=part,
        definition=definition,
        statistic="Average",
        published_unit=Unit.PERCENT,
        shown_unit=Unit.PERCENT,
        variant=variant,
        component=component,
        gpus_only=gpus_only,
        source=_CLOUDWATCH,
    )


def _of_instances(metric: str, summed: Summed | None = None) -> Series:
    return Series(_INSTANCES, metric, BY_VARIANT, summed)


def _of_copies(metric: str) -> Series:
    return Series(_COMPONENTS, metric, BY_COMPONENT)


LIVE: tuple[MetricDefinition, ...] = (
    _count(
        "invocations",
        "Invocations",
        Part.TRAFFIC,
        "Requests that were sent to the endpoint.",
        "Invocations",
        "Invocations",
    ),
    _count(
        "invocations_per_copy",
        "Invocations per instance or copy",
        Part.TRAFFIC,
        "Requests, divided by the instances of the variant or the copies of the inference component.",
        "InvocationsPerInstance",
        "InvocationsPerCopy",
    ),
    _latency(
        "model_latency",
        "Model latency",
        "ModelLatency",
        "Time from SageMaker's request to the model's container to its whole response.",
    ),
    _latency(
        "overhead_latency",
        "Overhead latency",
        "OverheadLatency",
        "Time that SageMaker adds: from the client's request to the response, without the model latency.",
    ),
    _latency(
        "first_chunk_latency",
        "Time to first chunk",
        "FirstChunkLatency",
        "Time from a streaming request to the first chunk of its response: the live counterpart of the time to first "
        "token.",
        of_component=False,
    ),
    _latency(
        "first_chunk_model_latency",
        "Time to first chunk, of the model",
        "FirstChunkModelLatency",
        "The model's share of the time to the first chunk.",
        of_component=False,
    ),
    _latency(
        "first_chunk_overhead_latency",
        "Time to first chunk, overhead",
        "FirstChunkOverheadLatency",
        "SageMaker's share of the time to the first chunk.",
        of_component=False,
    ),
    _count(
        "concurrent_requests",
        "Concurrent requests per model copy",
        Part.CONCURRENCY,
        "Requests that a copy of the model has at once; published every 10 seconds.",
        "ConcurrentRequestsPerModel",
        "ConcurrentRequestsPerCopy",
        statistic="Maximum",
    ),
    MetricDefinition(
        name="invocations_per_second",
        title="Requests per second",
        part=Part.CONCURRENCY,
        definition="Requests, divided by the seconds of the period.",
        statistic="Sum",
        published_unit=Unit.NONE,
        shown_unit=Unit.COUNT_PER_SECOND,
        formula="invocations / PERIOD(invocations)",
        source=_CLOUDWATCH,
    ),
    _count(
        "invocation_4xx_errors",
        "4xx errors",
        Part.ERRORS,
        "Requests that the model answered with a 4xx status: what a client sent was wrong.",
        "Invocation4XXErrors",
        "Invocation4XXErrors",
    ),
    _count(
        "invocation_5xx_errors",
        "5xx errors",
        Part.ERRORS,
        "Requests that the model answered with a 5xx status: the endpoint failed.",
        "Invocation5XXErrors",
        "Invocation5XXErrors",
    ),
    _count(
        "invocation_model_errors",
        "Model errors",
        Part.ERRORS,
        "Requests that the model's container did not answer with a 2xx status: 4xx and 5xx, broken connections, "
        "malformed answers and timeouts.",
        "InvocationModelErrors",
        "InvocationModelErrors",
    ),
    _count(
        "mid_stream_errors",
        "Mid-stream errors",
        Part.ERRORS,
        "Streaming responses that failed after they had begun.",
        "MidStreamErrors",
        None,
        source=_STREAMING,
    ),
    _count(
        "no_capacity_failures",
        "Requests without capacity",
        Part.ERRORS,
        "Requests that failed because no copy of the inference component was there.",
        None,
        "NoCapacityInvocationFailures",
        source=_ZERO,
    ),
    MetricDefinition(
        name="backlog_without_capacity",
        title="Queue without capacity",
        part=Part.ERRORS,
        definition="Whether requests wait in an asynchronous endpoint's queue while it has no instance: 1 or 0.",
        statistic="Maximum",
        published_unit=Unit.NONE,
        shown_unit=Unit.COUNT,
        variant=Series(_INVOCATIONS, "HasBacklogWithoutCapacity", ("EndpointName",)),
        source=_QUEUE,
    ),
    MetricDefinition(
        name="error_rate",
        title="Error rate",
        part=Part.ERRORS,
        definition="Share of requests that ended with a 4xx or 5xx status.",
        statistic="Sum",
        published_unit=Unit.PERCENT,
        shown_unit=Unit.PERCENT,
        formula="100 * (invocation_4xx_errors + invocation_5xx_errors) / invocations",
        source=_CLOUDWATCH,
    ),
    _percentage(
        "gpu_utilization",
        "GPU utilization",
        Part.ACCELERATORS,
        "How busy the GPUs are.",
        variant=_of_instances("GPUUtilization", Summed.GPUS),
        component=_of_copies("GPUUtilizationNormalized"),
        gpus_only=True,
    ),
    _percentage(
        "gpu_memory_utilization",
        "GPU memory utilization",
        Part.ACCELERATORS,
        "How much of the GPUs' memory is in use; always high where the container reserves the KV cache at its start.",
        variant=_of_instances("GPUMemoryUtilization", Summed.GPUS),
        component=_of_copies("GPUMemoryUtilizationNormalized"),
        gpus_only=True,
    ),
    _percentage(
        "gpu_reservation",
        "GPU reservation",
        Part.ACCELERATORS,
        "Share of the instances' GPUs that inference components have reserved.",
        variant=None,
        component=_of_instances("GPUReservation"),
        gpus_only=True,
    ),
    _percentage(
        "cpu_utilization",
        "CPU utilization",
        Part.HOST,
        "How busy the vCPUs are.",
        variant=_of_instances("CPUUtilization", Summed.VCPUS),
        component=_of_copies("CPUUtilizationNormalized"),
    ),
    _percentage(
        "memory_utilization",
        "Memory utilization",
        Part.HOST,
        "How much of the memory is in use: the instance's, or what the inference component reserved.",
        variant=_of_instances("MemoryUtilization"),
        component=_of_copies("MemoryUtilizationNormalized"),
    ),
    _percentage(
        "memory_reservation",
        "Memory reservation",
        Part.HOST,
        "Share of the instances' memory that inference components have reserved.",
        variant=None,
        component=_of_instances("MemoryReservation"),
    ),
    _percentage(
        "disk_utilization",
        "Disk utilization",
        Part.HOST,
        "How much of the instances' disks is in use.",
        variant=_of_instances("DiskUtilization"),
        component=_of_instances("DiskUtilization"),
    ),
    MetricDefinition(
        name="copy_reports",
        title="Reports of instances or copies",
        part=Part.SCALING,
        definition="Reports of CPU utilization in a period: each instance, or copy of an inference component, sends "
        f"one every {PUBLISHING_SECONDS} seconds.",
        statistic="SampleCount",
        published_unit=Unit.PERCENT,
        shown_unit=Unit.COUNT,
        variant=_of_instances("CPUUtilization"),
        component=_of_copies("CPUUtilizationNormalized"),
        source=_CLOUDWATCH,
    ),
    MetricDefinition(
        name="instance_reports",
        title="Reports of instances",
        part=Part.SCALING,
        definition="Reports of memory utilization in a period: each instance sends one every "
        f"{PUBLISHING_SECONDS} seconds.",
        statistic="SampleCount",
        published_unit=Unit.PERCENT,
        shown_unit=Unit.COUNT,
        variant=_of_instances("MemoryUtilization"),
        component=_of_instances("MemoryUtilization"),
        source=_CLOUDWATCH,
    ),
    MetricDefinition(
        name="copies",
        title="Instances or copies",
        part=Part.SCALING,
        definition="Instances of the variant, or copies of the inference component, that are running.",
        statistic="SampleCount",
        published_unit=Unit.COUNT,
        shown_unit=Unit.COUNT,
        formula="copy_reports * publishing_seconds / PERIOD(copy_reports)",
        source=_CLOUDWATCH,
    ),
    MetricDefinition(
        name="instances",
        title="Instances",
        part=Part.SCALING,
        definition="Instances of the variant that are running; during a deployment, the old and the new ones.",
        statistic="SampleCount",
        published_unit=Unit.COUNT,
        shown_unit=Unit.COUNT,
        formula="instance_reports * publishing_seconds / PERIOD(instance_reports)",
        source=_CLOUDWATCH,
    ),
    MetricDefinition(
        name="cost_per_hour",
        title="Cost per hour",
        part=Part.COST,
        definition="What the running instances cost in an hour.",
        statistic="SampleCount",
        published_unit=Unit.US_DOLLARS,
        shown_unit=Unit.US_DOLLARS,
        formula=f"({pricing.HOURLY}) * instance_reports * publishing_seconds / PERIOD(instance_reports)",
        source=_CLOUDWATCH,
    ),
    MetricDefinition(
        name="cost_per_thousand_invocations",
        title="Cost per 1,000 requests",
        part=Part.COST,
        definition="What the running instances cost, divided by the thousands of requests they served.",
        statistic="Sum",
        published_unit=Unit.US_DOLLARS,
        shown_unit=Unit.US_DOLLARS,
        formula=f"({pricing.HOURLY}) * instance_reports * publishing_seconds / 3.6 / invocations",
        source=_CLOUDWATCH,
    ),
)

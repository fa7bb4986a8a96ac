"""What an evaluation measures and publishes, at each concurrency and for each artifact.

Named and defined as in Amazon SageMaker AI's developer guide, "Metrics reference for inference performance
evaluations", which is also where the order comes from; throughput and blended price as in the AWS Machine Learning
Blog's introduction of the inference optimization toolkit.
"""

from __future__ import annotations

from collections.abc import Iterable

from constructs_optim.recipe import pricing

from .definition import (
    BY_COMPONENT,
    BY_VARIANT,
    EVALUATION_NAMESPACE,
    MetricDefinition,
    Part,
    Series,
    Unit,
)

PERCENTILES = ("p50", "p90", "p99")
"""What is told of every latency beside its mean."""

_EVALUATION = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize-evaluate.html"
_BLOG = (
    "https://aws.amazon.com/blogs/machine-learning/achieve-up-to-2x-higher-throughput-while-reducing-costs-by-50-for-"
    "generative-ai-inference-on-amazon-sagemaker-with-the-new-inference-optimization-toolkit-part-1/"
)
_OF_EVALUATION = ("Concurrency", "ArtifactKey")


def _evaluated(
    name: str,
    title: str,
    part: Part,
    unit: Unit,
    definition: str,
    *,
    metric_name: str | None = None,
    formula: str | None = None,
    source: str = _EVALUATION,
) -> MetricDefinition:
    published = metric_name or "".join(word.capitalize() for word in name.split("_"))
    return MetricDefinition(
        name=name,
        title=title,
        part=part,
        definition=definition,
        # One value an evaluation: those of evaluations in the same period are averaged.
        statistic="Average",
        published_unit=unit,
        shown_unit=unit,
        variant=Series(EVALUATION_NAMESPACE, published, (*BY_VARIANT, *_OF_EVALUATION)),
        component=Series(EVALUATION_NAMESPACE, published, (*BY_COMPONENT, *_OF_EVALUATION)),
        formula=formula,
        source=source,
    )


def _evaluated_latency(name: str, title: str, definition: str) -> Iterable[MetricDefinition]:
    part, unit = Part.EVALUATION_LATENCY, Unit.MILLISECONDS
    yield _evaluated(name, title, part, unit, f"{definition} The mean over all requests.")
    for percentile in PERCENTILES:
        text = f"{definition} The {percentile[1:]}th percentile over all requests."
        yield _evaluated(f"{name}_{percentile}", f"{title}, {percentile}", part, unit, text)


_L, _T, _P = Part.EVALUATION_LATENCY, Part.EVALUATION_THROUGHPUT, Part.EVALUATION_PRICE

EVALUATION: tuple[MetricDefinition, ...] = (
    _evaluated(
        "concurrency",
        "Concurrency",
        _L,
        Unit.COUNT,
        "Users that the evaluation simulated, who invoke the endpoint at the same time.",
    ),
    *_evaluated_latency(
        "time_to_first_token",
        "Time to first token",
        "Time from sending a request to the first token of its streaming response.",
    ),
    *_evaluated_latency(
        "inter_token_latency",
        "Inter-token latency",
        "Time to generate an output token of a request.",
    ),
    *_evaluated_latency(
        "client_latency",
        "Client latency",
        "Time from sending a request to its whole response.",
    ),
    _evaluated(
        "input_tokens_per_second",
        "Input tokens/s",
        _L,
        Unit.COUNT_PER_SECOND,
        "Input tokens of all requests, divided by the seconds that the evaluation took at this concurrency.",
    ),
    _evaluated(
        "output_tokens_per_second",
        "Output tokens/s",
        _L,
        Unit.COUNT_PER_SECOND,
        "Output tokens of all requests, divided by the seconds that the evaluation took at this concurrency.",
    ),
    _evaluated(
        "client_invocations",
        "Client invocations",
        _L,
        Unit.COUNT,
        "Requests that all users sent to the endpoint at this concurrency.",
    ),
    _evaluated(
        "client_invocation_errors",
        "Client invocation errors",
        _L,
        Unit.COUNT,
        "Requests at this concurrency that ended with an error.",
    ),
    _evaluated(
        "tokenizer_failed",
        "Tokenizer failed",
        _L,
        Unit.COUNT,
        "Requests whose text, or whose response, the tokenizer could not parse.",
    ),
    _evaluated(
        "empty_inference_response",
        "Empty inference response",
        _L,
        Unit.COUNT,
        "Requests with no output token, or with a response that the tokenizer could not parse.",
    ),
    _evaluated(
        "total_throughput",
        "Total throughput",
        _T,
        Unit.COUNT_PER_SECOND,
        "Output tokens a second that the median inter-token latency comes to, over all users. Time before the first "
        "token is not in it: where requests queue, fewer tokens are delivered (output_tokens_per_second).",
        formula=pricing.TOTAL_THROUGHPUT,
        source=_BLOG,
    ),
    _evaluated(
        "input_tokens_per_second_per_request",
        "Input tokens/s/request",
        _T,
        Unit.COUNT_PER_SECOND,
        "Mean input tokens of a request, divided by the mean seconds to its whole response.",
    ),
    _evaluated(
        "output_tokens_per_second_per_request",
        "Output tokens/s/request",
        _T,
        Unit.COUNT_PER_SECOND,
        "Mean output tokens of a request, divided by the mean seconds to its whole response.",
    ),
    _evaluated("input_tokens", "Input tokens", _T, Unit.COUNT, "Input tokens of a request."),
    _evaluated("output_tokens", "Output tokens", _T, Unit.COUNT, "Output tokens of a request."),
    _evaluated(
        "instance_price_per_hour",
        "Instance price per hour",
        _P,
        Unit.US_DOLLARS,
        "What all evaluated instances together cost in an hour, before any discount.",
        source=_BLOG,
    ),
    _evaluated(
        "price_per_million_input_tokens",
        "Price per million input tokens",
        _P,
        Unit.US_DOLLARS,
        "Cost of processing 1,000,000 input tokens, with nothing charged to output tokens.",
        formula=pricing.PRICE_PER_MILLION_INPUT_TOKENS,
    ),
    _evaluated(
        "price_per_million_output_tokens",
        "Price per million output tokens",
        _P,
        Unit.US_DOLLARS,
        "Cost of generating 1,000,000 output tokens, with nothing charged to input tokens.",
        formula=pricing.PRICE_PER_MILLION_OUTPUT_TOKENS,
    ),
    _evaluated(
        "blended_price_per_million_tokens",
        "Blended price per million tokens",
        _P,
        Unit.US_DOLLARS,
        "Cost of 1,000,000 tokens of which three are input for each that is output, by total_throughput: it knows no "
        "queue, and price_per_million_output_tokens, of what was delivered, does.",
        formula=pricing.BLENDED_PRICE_PER_MILLION_TOKENS,
        source=_BLOG,
    ),
)

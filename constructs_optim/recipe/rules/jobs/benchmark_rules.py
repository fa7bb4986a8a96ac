"""Rules about benchmarks of endpoints: what is sent, when, and what must come of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from constructs_optim.recipe.catalog.resource_types import WORKLOAD_CONFIG, is_missing, regions_with
from constructs_optim.recipe.evaluation import Benchmark
from constructs_optim.recipe.rules.endpoint.component_rules import TYPES_BY_REGION
from constructs_optim.recipe.rules.endpoint.scaling_rules import CRON, RATE, is_number
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.tokens import is_known, is_token

_JOBS = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateAIBenchmarkJob.html"
_CONFIGS = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateAIWorkloadConfig.html"
_EVALUATE = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize-evaluate.html"
_SCHEDULE = "https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html"
_S3_FILE = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/\S*[^/\s]")
_SECRET = re.compile(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:\S+")
# Names that the SageMaker Python SDK lets through.
PARAMETERS = frozenset(
    {
        "arrival_smoothness",
        "benchmark_duration",
        "benchmark_grace_period",
        "concurrency",
        "custom_dataset_type",
        "dataset_sampling_strategy",
        "extra_inputs",
        "goodput",
        "input_file",
        "max_concurrency",
        "model_selection_strategy",
        "num_conversations",
        "output_tokens_mean",
        "output_tokens_stddev",
        "prefill_concurrency",
        "prompt_input_tokens_mean",
        "prompt_input_tokens_stddev",
        "public_dataset",
        "random_seed",
        "request_count",
        "request_rate",
        "request_rate_mode",
        "request_timeout_seconds",
        "streaming",
        "tokenizer",
    }
)
"""Parameters of a workload. Those that begin with ``warmup_``, ``image_`` and ``video_`` are let through as well."""
_OPEN = ("warmup_", "image_", "video_")


@rule(
    "OPT142",
    title="A workload ends by its requests or by its time",
    reason="a number of requests and a duration each say when a measurement ends",
    link=_CONFIGS,
)
def _one_end(benchmark: Benchmark) -> Iterator[Finding]:
    workload = benchmark.workload
    if workload.requests is not None and workload.duration_seconds is not None:
        yield Finding("workload.duration_seconds", workload.duration_seconds, "requests or duration_seconds alone")
    most = max(workload.concurrency)
    if workload.requests is not None and workload.requests < most:
        yield Finding(
            "workload.requests",
            workload.requests,
            f"{most} or more: with fewer requests than users, some of the users send none",
        )


@rule(
    "OPT143",
    title="A workload's parameters are known",
    reason="the service refuses a workload with others",
    link=_CONFIGS,
)
def _parameters_are_known(benchmark: Benchmark) -> Iterator[Finding]:
    for name in benchmark.workload.parameters:
        if name not in PARAMETERS and not name.startswith(_OPEN):
            yield Finding("workload.parameters", name, f"one of {', '.join(sorted(PARAMETERS))}")
    if "concurrency" in benchmark.workload.parameters:
        yield Finding(
            "workload.parameters",
            "concurrency",
            "Workload(concurrency=[...])",
            reason="the numbers of users are what results are published by",
        )


@rule(
    "OPT144",
    title="Prompts and secrets are where the service can read them",
    reason="prompts are read from a JSON Lines file in S3, a token from Secrets Manager",
    link=_CONFIGS,
)
def _files_are_in_s3(benchmark: Benchmark) -> Iterator[Finding]:
    quality = benchmark.requirements.quality if benchmark.requirements is not None else None
    files = [("workload.prompts", benchmark.workload.prompts), ("quality.prompts", quality and quality.prompts)]
    for location, uri in files:
        if uri is not None and not is_token(uri) and not _S3_FILE.fullmatch(str(uri)):
            yield Finding(location, uri, "a file in S3, such as s3://my-bucket/prompts.jsonl")
    secret = benchmark.workload.token_secret_arn
    if secret is not None and not is_token(secret) and not _SECRET.fullmatch(str(secret)):
        yield Finding(
            "workload.token_secret_arn",
            "(not shown)",
            "the ARN of a secret, such as arn:aws:secretsmanager:us-west-2:111122223333:secret:token; never the token",
        )


@rule(
    "OPT145",
    title="A benchmark streams from an endpoint that answers at once",
    reason="the time to the first token is measured on a streaming response",
    link=_EVALUATE,
)
def _endpoint_streams(benchmark: Benchmark) -> Iterator[Finding]:
    if benchmark.asynchronous:
        yield Finding("async_inference", "set", "an endpoint that answers at once; evaluate the same recipe on one")


@rule(
    "OPT146",
    title="A benchmark runs at some time",
    reason="without a deployment or a schedule it never runs, and only a deployment can be stopped by it",
    link=_SCHEDULE,
)
def _runs_some_time(benchmark: Benchmark) -> Iterator[Finding]:
    schedule = benchmark.schedule
    if schedule is None and not benchmark.after_deployment:
        yield Finding("after_deployment", False, "after_deployment=True, or a schedule such as rate(1 day)")
    keeps = isinstance(schedule, str) and (RATE.fullmatch(schedule) or CRON.fullmatch(schedule))
    if schedule is not None and not is_token(schedule) and not keeps:
        yield Finding("schedule", schedule, "an expression such as rate(1 day) or cron(0 6 ? * MON-FRI *)")
    if benchmark.requirements is not None and not benchmark.after_deployment:
        yield Finding("require", "after_deployment=False", "after_deployment=True")


@rule(
    "OPT147",
    title="A requirement can be met",
    reason="limits are numbers above zero, and shares lie between 0 and 1",
    link=_EVALUATE,
)
def _requirements_can_be_met(benchmark: Benchmark) -> Iterator[Finding]:
    required = benchmark.requirements
    if required is None:
        return
    for limit in required.limits:
        value = limit.at_most if limit.at_most is not None else limit.at_least
        share = limit.title == "share of failed requests"
        if share and not (is_number(value) and 0 <= value < 1):
            yield Finding("require.max_error_rate", value, "a share from 0 on and below 1, such as 0.01 for 1 %")
        if not share and not (is_number(value) and value > 0):
            yield Finding(f"require: {limit.title}", value, "a number above zero")
    if required.regression is not None and not _is_share(required.regression.most):
        yield Finding("require.max_regression", required.regression.most, "a share such as 0.05 for 5 %")
    users = required.at_concurrency
    if users is not None and users not in benchmark.workload.concurrency:
        listed = ", ".join(str(each) for each in benchmark.workload.concurrency)
        yield Finding("require.at_concurrency", users, f"one of the workload's numbers of users: {listed}")


@rule(
    "OPT148",
    title="A price is one",
    reason="prices per token are calculated from it",
    link=_EVALUATE,
)
def _price_is_one(benchmark: Benchmark) -> Iterator[Finding]:
    price = benchmark.instance_price_per_hour
    if price is not None and is_known(price) and not (is_number(price) and price > 0):
        yield Finding("instance_price_per_hour", price, "US dollars an hour, above zero; or nothing, to look it up")
    if not (is_number(benchmark.discount) and 0 <= benchmark.discount < 1):
        yield Finding("discount", benchmark.discount, "a share from 0 on and below 1, such as 0.3 for 30 %")


@rule(
    "OPT149",
    title="The region has benchmark jobs",
    reason=f"CloudFormation has no {WORKLOAD_CONFIG} in that region, and refuses the whole template",
    link=TYPES_BY_REGION,
)
def _region_has_jobs(benchmark: Benchmark) -> Iterator[Finding]:
    if benchmark.region is not None and is_missing(WORKLOAD_CONFIG, benchmark.region):
        listed = ", ".join(regions_with(WORKLOAD_CONFIG))
        works = f"a stack in one of {listed}; or `constructs-optim evaluate`, which runs anywhere"
        yield Finding("region", benchmark.region, works)


@rule(
    "OPT156",
    title="A benchmark's tokenizer is named",
    reason="made-up prompts are measured in the tokens of some tokenizer, and the service's default is not documented",
    link=_CONFIGS,
    advisory=True,
)
def _tokenizer_is_named(benchmark: Benchmark) -> Iterator[Finding]:
    workload = benchmark.workload
    if workload.prompts is None and workload.tokenizer is None and "tokenizer" not in workload.parameters:
        yield Finding("workload.tokenizer", None, 'Name the served model\'s own: Workload(tokenizer="org/model")')


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1

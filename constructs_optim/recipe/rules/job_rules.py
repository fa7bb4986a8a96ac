"""Rules for benchmarks and recommendation jobs."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Sequence

from constructs_optim.recipe import tasks
from constructs_optim.recipe.catalog import availability, load
from constructs_optim.recipe.documentation import page
from constructs_optim.recipe.errors import did_you_mean
from constructs_optim.recipe.evaluation import Benchmark, RecommendationRequest
from constructs_optim.recipe.evaluation.sample_size import BEYOND, MEASUREMENTS, SPREAD, ComparedVersions, LimitedSample
from constructs_optim.recipe.evaluation.workload import POOLED_SETTINGS
from constructs_optim.recipe.hosting import CapacityReservation, schedules
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.secrets import NOT_SHOWN
from constructs_optim.recipe.tasks import GENERATE
from constructs_optim.recipe.tokens import is_known, is_number, is_token, matches

from .draft_rules import is_prefix
from .hosting_rules import RESERVATION, RESERVATION_EXAMPLE
from .model_rules import LONGEST_URI, S3_FILE, SECRET, wrong_bucket
from .registry import API, GUIDE, Finding, rule

_MOST_POOLED_USERS = 256
# The limits of ``runtime/requests/run_properties.py``, for an invocation of 180 seconds.
_MOST_OF_POOLED = {"requests": 100_000, "duration_seconds": 100, "request_timeout_seconds": 60}
_INPUTS = "inputs_per_second"
_POOLED_METRICS = frozenset(
    {
        *("client_latency", "client_latency_p50", "client_latency_p90", "client_latency_p99", _INPUTS),
        *("requests_per_second", "input_tokens_per_second", "price_per_million_input_tokens"),
        *("price_per_thousand_requests", "client_invocation_errors"),
    }
)
_POOLED_LIMITS = ("p90_client_latency_ms", "min_inputs_per_second", "max_price_per_million_input_tokens")
_COMPLETIONS_ONLY = ("min_identical", "max_difference", "max_tokens")


@rule("OPT142", f"{API}CreateAIWorkloadConfig.html")
def _ends_once(benchmark: Benchmark) -> Iterator[Finding]:
    """A workload has a request count or a duration: a measurement ends after its requests or after its duration, not
    both.
    """
    workload, most = benchmark.workload, max(benchmark.workload.concurrency)
    if workload.requests is not None and workload.duration_seconds is not None:
        yield Finding("workload.duration_seconds", workload.duration_seconds, "either requests or duration_seconds")
    if workload.requests is not None and workload.requests < most:
        fix = f"{most} or more: with fewer requests than users, some users send none"
        yield Finding("workload.requests", workload.requests, fix)


@rule("OPT143", f"{API}CreateAIWorkloadConfig.html")
def _parameters_are_known(benchmark: Benchmark) -> Iterator[Finding]:
    """A workload's parameters are known: SageMaker rejects unknown parameters."""
    known, prefixes = load("workload")["parameters"], tuple(load("workload")["prefixes"])
    for name in benchmark.workload.parameters:
        if name not in known and not name.startswith(prefixes):
            yield Finding("workload.parameters", name, f"one of {', '.join(known)}")
    if "concurrency" in benchmark.workload.parameters:
        reason = "results are published by the number of users, which has its own setting"
        yield Finding("workload.parameters", "concurrency", "Workload(concurrency=[...])", reason)


@rule("OPT144", f"{API}CreateAIWorkloadConfig.html")
def _files_are_in_s3(benchmark: Benchmark) -> Iterator[Finding]:
    """Prompts and tokens are readable: SageMaker reads prompts from a JSON Lines file in S3, tokens from Secrets
    Manager.
    """
    quality = benchmark.requirements.quality if benchmark.requirements is not None else None
    for location, uri in (("workload", benchmark.workload.prompts), ("quality", quality and quality.prompts)):
        if uri is not None and not matches(S3_FILE, uri):
            fix = "a file in S3, such as s3://my-bucket/prompts.jsonl"
            yield Finding(f"{location}.prompts", uri, fix, wrong_bucket(uri))
    secret = benchmark.workload.token_secret_arn
    if secret is not None and not matches(SECRET, secret):
        example = "arn:aws:secretsmanager:us-west-2:111122223333:secret:token"
        fix = f"the ARN of a secret, such as {example}; never the token"
        yield Finding("workload.token_secret_arn", NOT_SHOWN, fix)


@rule("OPT145", f"{GUIDE}model-optimize-evaluate.html")
def _endpoint_streams(benchmark: Benchmark) -> Iterator[Finding]:
    """A benchmark needs a streaming endpoint: a benchmark measures the time to first token of a streaming response."""
    if benchmark.asynchronous:
        yield Finding("async_inference", "set", "a synchronous endpoint with the same recipe")


@rule("OPT146", "https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html")
def _runs_some_time(benchmark: Benchmark) -> Iterator[Finding]:
    """A benchmark has a trigger: benchmarks run after a deployment, which requirements can fail, or on a schedule."""
    schedule = benchmark.schedule
    if schedule is None and not benchmark.after_deployment:
        yield Finding("after_deployment", False, "after_deployment=True, or a schedule such as rate(1 day)")
    fault = schedules.fault(schedule, repeats=True) if schedule is not None and not is_token(schedule) else None
    if fault is not None:
        yield Finding("schedule", schedule, fault.fix, fault.reason)
    if benchmark.requirements is not None and not benchmark.after_deployment:
        yield Finding("require", "after_deployment=False", "after_deployment=True")


@rule("OPT147", f"{GUIDE}model-optimize-evaluate.html")
def _requirements_can_be_met(benchmark: Benchmark) -> Iterator[Finding]:
    """A requirement is achievable: limits are numbers above zero, and shares are between 0 and 1."""
    required = benchmark.requirements
    if required is None:
        return
    for limit in required.limits:
        value = limit.at_most if limit.at_most is not None else limit.at_least
        if limit.is_on_failures:
            if not (is_number(value) and 0 <= value < 1):
                yield Finding(
                    "require.max_error_rate", value, "a share of at least 0 and less than 1, such as 0.01 for 1%"
                )
        elif not (is_number(value) and value > 0):
            yield Finding(f"require.{limit.name}", value, "a number above zero")
    most = required.max_regression
    if most is not None and not (is_number(most) and 0 <= most <= 1):
        yield Finding("require.max_regression", most, "a share such as 0.05 for 5%")
    users = required.at_concurrency
    if users is not None and users not in benchmark.workload.concurrency:
        fix = f"a number of users in the workload: {', '.join(map(str, benchmark.workload.concurrency))}"
        yield Finding("require.at_concurrency", users, fix)


@rule("OPT157", f"{GUIDE}model-optimize-evaluate.html", advisory=True)
def _requests_decide_limits(sample: LimitedSample) -> Iterator[Finding]:
    """A measurement decides its limits: of few requests, chance alone carries as many beyond a limit. The required
    number is for independent requests whose latencies have a logarithmic standard deviation of 0.5.
    """
    limit, needed = sample.limit, sample.needed
    if needed is None or needed <= sample.requests:
        return
    value = limit.at_most if limit.at_most is not None else limit.at_least
    reason = (
        f"of endpoints that are {BEYOND:g} times beyond this limit, {MEASUREMENTS} measurements of {sample.requests:,} "
        "requests find fewer than nine in ten; the others pass as undecided"
    )
    latencies = "" if limit.is_on_failures else f" whose latencies have a logarithmic standard deviation of {SPREAD:g}"
    fix = (
        f"To find them, set Workload(requests={needed:_}). This is for independent requests{latencies}: similar ones "
        f"{'' if limit.is_on_failures else 'and longer tails '}need more"
    )
    yield Finding(f"require.{limit.name}", value, fix, reason)


@rule("OPT158", f"{GUIDE}model-optimize-evaluate.html", advisory=True)
def _versions_are_measured_several_times(compared: ComparedVersions) -> Iterator[Finding]:
    """A version is measured several times: measurements of one endpoint differ by about 7%, so after a single one, a
    next version that is less than about a third slower passes as undecided.
    """
    if compared.max_regression is not None and compared.schedule is None:
        fix = 'Add a schedule, such as schedule="rate(1 day)": six accepted measurements show how much they differ'
        yield Finding("require.max_regression", compared.max_regression, fix)


@rule("OPT148", f"{GUIDE}model-optimize-evaluate.html")
def _price_is_valid(benchmark: Benchmark) -> Iterator[Finding]:
    """Price and discount are valid: the price per token is calculated from the instance's price and the discount."""
    price, discount = benchmark.instance_price_per_hour, benchmark.discount
    if is_known(price) and not (is_number(price) and price > 0):
        yield Finding(
            "instance_price_per_hour",
            price,
            "US dollars per hour, above zero; or leave it out to use the AWS Price List",
        )
    if not (is_number(discount) and 0 <= discount < 1):
        yield Finding("discount", discount, "a share of at least 0 and less than 1, such as 0.3 for 30%")


@rule("OPT149", "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-resource-specification.html")
def _region_has_benchmarks(benchmark: Benchmark) -> Iterator[Finding]:
    """The Region supports benchmark jobs: CloudFormation has no AWS::SageMaker::AIWorkloadConfig in this Region."""
    kind, region = availability.WORKLOAD_CONFIG, benchmark.region
    if benchmark.task == GENERATE and region is not None and availability.is_missing(kind, region):
        regions = ", ".join(availability.regions_with(kind))
        fix = f"deploy the stack in one of {regions}; or use `constructs-optim evaluate`, which runs in any Region"
        yield Finding("region", region, fix)


@rule("OPT156", f"{API}CreateAIWorkloadConfig.html", advisory=True)
def _tokenizer_is_named(benchmark: Benchmark) -> Iterator[Finding]:
    """A workload names its tokenizer: synthetic prompts are measured in tokens, and AWS documents no default."""
    workload = benchmark.workload
    if benchmark.task != GENERATE:
        return
    if workload.prompts is None and workload.tokenizer is None and "tokenizer" not in workload.parameters:
        fix = 'Name the served model\'s tokenizer: workload=Workload(tokenizer="org/model")'
        yield Finding("workload.tokenizer", None, fix)


@rule("OPT300", page("evaluation"))
def _the_workload_is_of_the_task(benchmark: Benchmark) -> Iterator[Finding]:
    """The workload and the requirements are of the model's task: a model that generates no text has no time to its
    first token and no output tokens, and only its requests have several inputs.
    """
    task, workload, required = tasks.find(benchmark.task), benchmark.workload, benchmark.requirements
    if not task.is_evaluated:
        reason = f"evaluations have no requests for {task.title}"
        yield Finding("evaluate", task.title, "the endpoint without evaluate(), and a test of your own", reason)
        return
    generating = {"inputs_per_request"}
    others = generating if task.generates else {*type(workload).model_fields} - {*POOLED_SETTINGS}
    for name in sorted(others & workload.model_fields_set):
        reason = f"it has no effect on requests for {task.title}"
        yield Finding(f"workload.{name}", getattr(workload, name), "leave it out", reason)
    for name, limit in _MOST_OF_POOLED.items() if not task.generates else ():
        value = getattr(workload, name)
        if value is not None and value > limit:
            reason = "the evaluation's function sends these requests, and runs for three minutes"
            yield Finding(f"workload.{name}", value, f"at most {limit}", reason)
    longest = benchmark.longest_input
    if not task.generates and workload.prompts is None and longest is not None and workload.input_tokens > longest:
        reason = f"the model reads at most {longest} tokens, and the server refuses longer inputs"
        yield Finding("workload.input_tokens", workload.input_tokens, f"at most {longest}", reason)
    most = max(workload.concurrency)
    if not task.generates and most > _MOST_POOLED_USERS:
        reason = "the evaluation's function sends these requests, with a thread for each user"
        yield Finding("workload.concurrency", most, f"at most {_MOST_POOLED_USERS}", reason)
    if required is None:
        return
    measured = _POOLED_METRICS if not task.generates else None
    for limit in required.limits:
        is_pooled = limit.formula == _INPUTS
        if limit.is_on_failures or (task.generates and not is_pooled) or (measured and limit.formula in measured):
            continue
        fix = ", ".join(_POOLED_LIMITS) if not task.generates else "min_input_tokens_per_second"
        reason = f"{limit.formula} is not measured of {task.title}"
        yield Finding(f"require.{limit.name}", limit.at_most or limit.at_least, f"one of {fix}", reason)
    for name, _ in required.compared:
        if (name == _INPUTS) if task.generates else name not in _POOLED_METRICS:
            reason = f"{name} is not measured of {task.title}"
            fix = "leave it out" if task.generates else f"some of {', '.join(sorted(_POOLED_METRICS))}, or leave it out"
            yield Finding("regression_metrics", name, fix, reason)
    quality = required.quality
    for name in sorted(quality.model_fields_set) if quality is not None else ():
        if name in (_COMPLETIONS_ONLY if not task.generates else ("min_agreement",)):
            reason = f"it has no effect on {task.title}"
            yield Finding(f"quality.{name}", getattr(quality, name), "leave it out", reason)


@rule("OPT150", f"{GUIDE}generative-ai-inference-recommendations-get-started.html")
def _model_is_in_s3(request: RecommendationRequest) -> Iterator[Finding]:
    """The model is in S3: a recommendation job reads a checkpoint in Hugging Face format, with safetensors weights."""
    model, example = request.model, 'Model.s3("s3://my-bucket/models/llama/")'
    if not isinstance(model, Model):
        yield Finding("model", model, example)
    elif model.kind != "s3":
        reason = "a recommendation job cannot read a model from a hub"
        yield Finding("model", str(model), f"the model's files in your own bucket: {example}", reason)
    elif not is_prefix(model.uri) or not (is_token(model.uri) or len(model.uri) <= LONGEST_URI):
        yield Finding("model.uri", model.uri, f"a prefix with uncompressed files, such as {example}")


@rule("OPT151", f"{API}CreateAIRecommendationJob.html")
def _goal_is_known(request: RecommendationRequest) -> Iterator[Finding]:
    """A recommendation has one goal: a recommendation job ranks results by exactly one metric."""
    goal, metrics = request.optimize_for, availability.recommendations().metrics
    if not isinstance(goal, str) or goal not in metrics:
        ours = [name for name, metric in metrics.items() if metric == goal]
        yield Finding("optimize_for", goal, ours[0] if ours else f"one of {', '.join(metrics)}")


@rule("OPT152", f"{API}CreateAIRecommendationJob.html")
def _instance_types_are_known(request: RecommendationRequest) -> Iterator[Finding]:
    """Instance types are supported: a recommendation job tries one to three types from its own list of GPU types."""
    types, service = request.instance_types, availability.recommendations()
    if types is None:
        return
    if isinstance(types, str) or not isinstance(types, Sequence):
        yield Finding("instance_types", types, 'a list, such as ["ml.g6e.12xlarge"]')
        return
    if not 0 < len(types) <= service.most_instance_types:
        fix = f"one to {service.most_instance_types}; or leave it out, and SageMaker chooses"
        yield Finding("instance_types", list(types), fix)
    for index, name in enumerate(types):
        if name in types[:index]:
            yield Finding(f"instance_types[{index}]", name, "distinct types", "this type is listed twice")
        elif not is_token(name) and name not in service.instance_types:
            fix = did_you_mean(name, service.instance_types, f"one of {', '.join(service.instance_types)}")
            yield Finding(f"instance_types[{index}]", name, fix)


@rule("OPT153", f"{API}CreateAIRecommendationJob.html")
def _framework_is_known(request: RecommendationRequest) -> Iterator[Finding]:
    """The framework is supported: a recommendation job serves the model only with the listed frameworks."""
    names = availability.recommendations().frameworks
    if request.framework is not None and request.framework not in names:
        yield Finding("framework", request.framework, f"{' or '.join(names)}; or leave it out")


@rule("OPT154", f"{GUIDE}generative-ai-inference-recommendations.html")
def _region_has_recommendations(request: RecommendationRequest) -> Iterator[Finding]:
    """The Region supports recommendation jobs: the SageMaker developer guide does not list this Region."""
    regions = availability.recommendations().regions
    if request.region is not None and request.region not in regions:
        fix = f"deploy the stack in one of {', '.join(regions)}, with the model's bucket in the same Region"
        yield Finding("region", request.region, fix)


@rule("OPT155", f"{API}CreateAIRecommendationJob.html")
def _reservations_are_arns(request: RecommendationRequest) -> Iterator[Finding]:
    """Reservations are given by their ARNs: a recommendation job finds reservations by ARN, and launches nothing
    outside.
    """
    for index, reservation in enumerate(request.capacity_reservations):
        location = f"capacity_reservations[{index}]"
        if not isinstance(reservation, CapacityReservation):
            yield Finding(location, reservation, RESERVATION_EXAMPLE)
        elif not matches(RESERVATION, reservation.arn):
            yield Finding(f"{location}.arn", reservation.arn, RESERVATION_EXAMPLE)

from __future__ import annotations

import ast
import itertools
from typing import Any

import pytest
from aws_cdk import CfnParameter, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.assertions import Annotations, Match

from constructs_optim.constructs.monitoring.endpoint_metrics import MeasuredResource
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.recipe import RecipeError, metrics
from constructs_optim.recipe.metrics import engines
from constructs_optim.recipe.metrics.engines import Engine
from tooling.metric_docstrings import SOURCE, documented

from ..support.construct_stacks import resource, resources, stack, template_of
from ..support.monitored_endpoint import Endpoint

VARIANT = ServedModel("chat", "AllTraffic", instance_type="ml.g5.12xlarge", artifact_key="a" * 64)
COMPONENT = ServedModel("chat", "AllTraffic", "chat-llama", instance_type="ml.g5.12xlarge", artifact_key="a" * 64)
NEURON = ServedModel("chat", "AllTraffic", instance_type="ml.inf2.48xlarge")


def test_an_editor_shows_what_each_metric_method_returns() -> None:
    """It reads the source: what follows an assignment in a class documents it."""
    source = SOURCE.read_text()
    assert documented(source) == source, "python tooling/metric_docstrings.py"
    (resource,) = [each for each in ast.parse(source).body if getattr(each, "name", "") == "MeasuredResource"]
    assert isinstance(resource, ast.ClassDef)
    described = {
        assigned.targets[0].id: text.value.value
        for assigned, text in itertools.pairwise(resource.body)
        if isinstance(assigned, ast.Assign)
        and isinstance(assigned.targets[0], ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
    methods = [name for name in vars(MeasuredResource) if name.startswith("metric_")]
    written = [name for name in methods if name in described]
    assert len(written) >= 29
    for name in written:
        assert " ".join(str(described[name]).split()) == getattr(MeasuredResource, name).__doc__


def alarm_on(served: ServedModel, choose: Any) -> dict[str, Any]:
    scope = stack()
    metric = choose(Endpoint(scope, "Endpoint", served))
    cloudwatch.Alarm(scope, "Alarm", metric=metric, threshold=1, evaluation_periods=1)
    return resource(template_of(scope), "AWS::CloudWatch::Alarm")


METHODS = sorted(
    name
    for name in vars(MeasuredResource)
    if name.startswith("metric_") and name not in ("metric_engine", "metric_evaluation", "metric_cost_per_hour")
)
OF_ENGINES = [name for name in METHODS if name.removeprefix("metric_") in engines.by_name()]


@pytest.mark.parametrize("method", [name for name in METHODS if name not in OF_ENGINES])
def test_each_metric_method_returns_the_metric_with_its_name(method: str) -> None:
    definition = metrics.find(method.removeprefix("metric_"))
    created = getattr(Endpoint(stack(), "Endpoint", VARIANT), method)()
    assert definition.variant is not None
    assert (created.namespace, created.metric_name) == (definition.variant.namespace, definition.variant.metric_name)
    assert created.dimensions == {"EndpointName": "chat", "VariantName": "AllTraffic"}
    assert created.statistic == definition.statistic


def test_each_metric_method_is_called_and_documented_as_its_name_says() -> None:
    for method in METHODS:
        function = getattr(MeasuredResource, method)
        assert (function.__name__, function.__qualname__) == (method, method)
        assert function.__doc__


@pytest.mark.parametrize("method", OF_ENGINES)
@pytest.mark.parametrize("component", [None, "chat-llama"])
def test_each_engine_method_returns_promql_of_its_endpoint_or_component(method: str, component: str | None) -> None:
    engine = Engine("vllm", "vLLM", speculates=True)
    served = ServedModel("chat", "AllTraffic", component, engine=engine)
    created = getattr(Endpoint(stack(), "Endpoint", served), method)(window=Duration.minutes(2))
    assert created.name == method.removeprefix("metric_")
    assert "[120s]" in created.query
    selector = '{"aws.sagemaker.endpoint.name"="chat", "aws.sagemaker.variant.name"="AllTraffic"}'
    if component is not None:
        selector = '{"aws.sagemaker.inference_component.name"="chat-llama"}'
    assert selector in created.query


def test_every_engine_metric_that_is_a_measure_has_a_method() -> None:
    assert set(engines.by_name()) - {name.removeprefix("metric_") for name in OF_ENGINES} == {
        # For conditions of scaling: copies that load their model are missing in it.
        "publishing_copies"
    }


def test_an_engine_metric_makes_an_alarm_on_promql() -> None:
    scope = stack()
    served = ServedModel("chat", "AllTraffic", engine=Engine("vllm", "vLLM"))
    metric = Endpoint(scope, "Endpoint", served).metric_engine("queue_time", quantile=0.5)
    metric.create_alarm(scope, "Slow", threshold=500)
    metric.create_alarm(scope, "Fast", threshold=1, below=True, pending_period=Duration.minutes(1))
    slow, fast = resources(template_of(scope), "AWS::CloudWatch::Alarm")
    criteria = slow["EvaluationCriteria"]["PromQLCriteria"]
    assert criteria == {"PendingPeriod": 300, "Query": f"{metric.query} > 500", "RecoveryPeriod": 300}
    assert slow["EvaluationInterval"] == 60
    assert fast["EvaluationCriteria"]["PromQLCriteria"]["Query"].endswith(" < 1")
    assert "histogram_quantile(0.5, " in metric.query


def test_engine_metrics_that_are_not_published_are_refused_with_their_reason() -> None:
    lmi = Endpoint(stack(), "Lmi", ServedModel("chat", "AllTraffic", engine=Engine("lmi", "Large Model Inference")))
    with pytest.raises(
        RecipeError, match=r"(?s)OPT170.*Large Model Inference publishes no such metric.*Server\.vllm\(\)"
    ):
        lmi.metric_kv_cache_usage()
    with pytest.raises(RecipeError, match="the server of the model is unknown"):
        Endpoint(stack(), "Unknown", VARIANT).metric_queue_time()
    plain = Endpoint(stack(), "Plain", ServedModel("chat", "AllTraffic", engine=Engine("vllm", "vLLM")))
    with pytest.raises(RecipeError, match="a recipe with speculative decoding"):
        plain.metric_acceptance_length()
    with pytest.raises(RecipeError, match=r"(?s)OPT171.*above 0 and below 1"):
        plain.metric_queue_time(quantile=90)


def test_every_published_live_variant_metric_has_a_method() -> None:
    live = [metric for metric in metrics.by_name().values() if not metric.of_evaluation]
    published = {metric.name for metric in live if metric.variant is not None and metric.part != "scaling"}
    assert published - {name.removeprefix("metric_") for name in METHODS} == {
        # Of asynchronous endpoints, for their alarms.
        "backlog_without_capacity",
        "expired_requests",
        "invocation_failures",
        "first_chunk_overhead_latency",
        # A part of formulas.
        "responses",
    }


def test_inference_component_metrics_use_the_component_dimension() -> None:
    endpoint = Endpoint(stack(), "Endpoint", COMPONENT)
    requests, gpus = endpoint.metric_concurrent_requests(), endpoint.metric_gpu_utilization()
    assert (requests.metric_name, requests.dimensions) == (
        "ConcurrentRequestsPerCopy",
        {"InferenceComponentName": "chat-llama"},
    )
    assert (gpus.namespace, gpus.metric_name) == ("/aws/sagemaker/InferenceComponents", "GPUUtilizationNormalized")


def test_metrics_not_published_for_inference_components_are_refused() -> None:
    with pytest.raises(ValueError, match="does not publish it for an inference component"):
        Endpoint(stack(), "Endpoint", COMPONENT).metric_first_chunk_latency()


def test_gpu_utilization_of_an_instance_without_gpus_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ml\.inf2\.48xlarge has no GPUs"):
        Endpoint(stack(), "Endpoint", NEURON).metric_gpu_utilization()


def test_metric_methods_accept_the_cdk_metric_options() -> None:
    alarm = alarm_on(
        VARIANT, lambda endpoint: endpoint.metric_model_latency(statistic="p99", period=Duration.minutes(1))
    )
    assert (alarm["ExtendedStatistic"], alarm["Period"]) == ("p99", 60)


def test_endpoint_names_in_metrics_may_be_tokens() -> None:
    scope = stack()
    name = CfnParameter(scope, "Name").value_as_string
    endpoint = Endpoint(scope, "Endpoint", ServedModel(name, "AllTraffic"))
    cloudwatch.Alarm(scope, "Alarm", metric=endpoint.metric_invocations(), threshold=1, evaluation_periods=1)
    alarm = resource(template_of(scope), "AWS::CloudWatch::Alarm")
    assert {"Name": "EndpointName", "Value": {"Ref": "Name"}} in alarm["Dimensions"]


def test_a_calculated_metric_is_metric_math_over_its_operands() -> None:
    queries = alarm_on(VARIANT, lambda endpoint: endpoint.metric("error_rate", period=Duration.minutes(1)))["Metrics"]
    (formula,) = [query for query in queries if "Expression" in query]
    failed = metrics.find("failed_requests").formula
    assert formula["Expression"] == f"100 * ({failed}) / invocations"
    assert {query["Id"] for query in queries if "MetricStat" in query} == {
        "invocation_4xx_errors",
        "invocation_5xx_errors",
        "invocation_model_errors",
        "mid_stream_errors",
        "invocations",
    }
    assert {query["MetricStat"]["Period"] for query in queries if "MetricStat" in query} == {60}


def test_a_formula_of_a_component_has_no_metrics_that_only_variants_publish() -> None:
    queries = alarm_on(COMPONENT, lambda endpoint: endpoint.metric("error_rate"))["Metrics"]
    published = {query["MetricStat"]["Metric"]["MetricName"] for query in queries if "MetricStat" in query}
    assert published == {"Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors", "Invocations"}


def test_the_options_of_a_calculated_metric_are_of_the_formula_or_of_what_it_counts() -> None:
    chosen: Any = {"color": "#d62728", "label": "Failed", "period": Duration.minutes(1)}
    of_account: Any = {"account": "444455556666", "region": "eu-west-1"}
    created = Endpoint(stack(), "Endpoint", VARIANT).metric("error_rate", **chosen, **of_account)
    assert isinstance(created, cloudwatch.MathExpression)
    assert (created.color, created.label, created.period.to_seconds()) == ("#d62728", "Failed", 60)
    operands = [each.to_metric_config().metric_stat for each in created.using_metrics.values()]
    assert {(each.account, each.region, each.period.to_seconds()) for each in operands if each is not None} == {
        ("444455556666", "eu-west-1", 60)
    }


def test_a_calculated_metric_does_not_accept_a_statistic() -> None:
    with pytest.raises(ValueError, match="does not support statistic"):
        Endpoint(stack(), "Endpoint", VARIANT).metric("error_rate", statistic="p99")


def test_cost_metrics_require_an_instance_price() -> None:
    endpoint = Endpoint(stack(), "Endpoint", VARIANT)
    with pytest.raises(ValueError, match="needs the price of an instance"):
        endpoint.metric("cost_per_hour")
    created = endpoint.metric_cost_per_hour(instance_price_per_hour=7.09, discount=0.3)
    assert created.expression == "((1 - 0.3) * 7.09) * instance_reports * 60 / PERIOD(instance_reports)"


def test_evaluation_metrics_have_concurrency_and_artifact_dimensions() -> None:
    created = Endpoint(stack(), "Endpoint", VARIANT).metric_evaluation("time_to_first_token_p90", concurrency=8)
    assert created.namespace == "ConstructsOptim/Evaluation"
    assert created.metric_name == "TimeToFirstTokenP90"
    assert created.dimensions == {
        "EndpointName": "chat",
        "VariantName": "AllTraffic",
        "Concurrency": "8",
        "ArtifactKey": "a" * 64,
    }


def test_an_evaluation_metric_without_an_artifact_key_is_refused() -> None:
    with pytest.raises(ValueError, match="ArtifactKey is not set"):
        Endpoint(stack(), "Endpoint", NEURON).metric_evaluation("client_latency", concurrency=8)


def test_an_evaluation_metric_without_a_concurrency_is_refused() -> None:
    series = VARIANT.series(metrics.find("client_latency"))
    with pytest.raises(ValueError, match="and Concurrency is not set: use metric_evaluation"):
        VARIANT.dimensions(series)


def test_live_and_evaluation_metrics_have_separate_methods() -> None:
    endpoint = Endpoint(stack(), "Endpoint", VARIANT)
    with pytest.raises(ValueError, match="is not an evaluation metric"):
        endpoint.metric_evaluation("model_latency", concurrency=8)
    with pytest.raises(ValueError, match="use metric_evaluation"):
        endpoint.metric("client_latency")


def test_an_alarm_that_its_engine_metric_can_never_reach_is_refused() -> None:
    served = ServedModel("chat", "AllTraffic", engine=Engine("vllm", "vLLM", speculates=True))
    scope = stack()
    measured = Endpoint(scope, "Endpoint", served)
    with pytest.raises(RecipeError, match=r"(?s)OPT244 Fast\.threshold = 0.*more than 0 ms"):
        measured.metric_queue_time().create_alarm(scope, "Fast", threshold=0, below=True)
    with pytest.raises(RecipeError, match=r"(?s)OPT244 Full\.threshold = 100.*less than 100%"):
        measured.metric_kv_cache_usage().create_alarm(scope, "Full", threshold=100)
    with pytest.raises(RecipeError, match=r"(?s)OPT244 Kept\.threshold = 0\.9.*such as 90% for 0\.9 as a share"):
        measured.metric_acceptance_length_kept().create_alarm(scope, "Kept", threshold=0.9, below=True)


def test_an_alarm_on_a_percentage_with_a_share_as_its_threshold_gets_advice() -> None:
    scope = stack()
    measured = Endpoint(scope, "Endpoint", ServedModel("chat", "AllTraffic", engine=Engine("vllm", "vLLM")))
    measured.metric_kv_cache_usage().create_alarm(scope, "Full", threshold=0.95)
    measured.metric_kv_cache_usage().create_alarm(scope, "Idle", threshold=0.5, below=True)
    reason = Match.string_like_regexp(r"Full\.threshold = 0\.95: this is a percentage, 0\.95%.*Did you mean 95 for 95%")
    annotations = Annotations.from_stack(scope)
    annotations.has_warning("/Chat/Full", reason)
    annotations.has_no_warning("/Chat/Idle", Match.any_value())

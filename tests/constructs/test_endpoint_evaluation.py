"""``endpoint.evaluate(...)`` and ``.require(...)``: the resources they declare and the arguments they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, CfnParameter, Duration, Environment, Stack, Tags
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from constructs_optim import (
    AsyncInference,
    Model,
    MonitoringOptions,
    OptimizedEndpoint,
    Pool,
    PreOptimized,
    QualityRequirement,
    Quantization,
    RecipeError,
    Server,
    SpeculativeDecoding,
    Workload,
)

from ..support.construct_stacks import KEY_OF_THE_HEADLINE, endpoint, llama, resource, resources, stack, template_of

EVALUATION = "Custom::EndpointEvaluation"


def request_of(scope: Stack) -> dict[str, Any]:
    return resource(template_of(scope), EVALUATION)["Request"]


def waits(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The wait conditions of evaluations by logical id."""
    found = template["Resources"].items()
    return {name: r for name, r in found if r["Type"] == "AWS::CloudFormation::WaitCondition" and "Passed" in name}


def test_an_evaluation_request_names_the_endpoint_config_and_artifact() -> None:
    scope = stack()
    evaluation = endpoint(scope).evaluate()
    request = request_of(scope)
    (name,) = [key for key, each in template_of(scope)["Resources"].items() if each["Type"] == EVALUATION]
    assert scope.resolve(evaluation.evaluation_key) == {"Ref": name}
    assert scope.resolve(evaluation.result_uri) == {"Fn::GetAtt": [name, "ResultUri"]}
    assert "EndpointConfigName" in json.dumps(request["EndpointConfigName"])
    (subject,) = request["Subjects"]
    recipe = subject.pop("Recipe")
    assert subject == {"InstanceType": "ml.g5.12xlarge", "ArtifactKey": KEY_OF_THE_HEADLINE, "Server": "vllm"}
    assert recipe.pop("Image").startswith("vllm:")
    assert recipe == {
        "Model": "meta-textgeneration-llama-3-70b-instruct",
        "Techniques": ["quantization=awq"],
        "Server": "vllm",
    }
    assert request["Concurrencies"] == [1, 8, 32]


def test_a_region_without_workload_configurations_is_refused() -> None:
    london = endpoint(stack(env=Environment(account="111122223333", region="eu-west-2")))
    with pytest.raises(RecipeError, match="OPT149"):
        london.evaluate()


def test_an_evaluation_with_synthetic_prompts_and_no_tokenizer_gives_a_warning() -> None:
    scope = stack()
    created = endpoint(scope)

    def warned() -> list[str]:
        every = [(each.node.id, entry) for each in scope.node.find_all() for entry in each.node.metadata]
        return [name for name, entry in every if "warning" in entry.type and "OPT156" in entry.data]

    created.evaluate(workload=Workload(tokenizer="org/model"))
    assert warned() == []
    created.evaluate("Unnamed")
    assert warned() == ["Unnamed"]


def test_an_evaluation_without_requirements_does_not_block_the_deployment() -> None:
    scope = stack()
    endpoint(scope).evaluate()
    template = template_of(scope)
    assert waits(template) == {}
    assert "WaitHandle" not in resource(template, EVALUATION)


def test_a_deployment_with_requirements_waits_up_to_the_evaluation_timeout() -> None:
    scope = stack()
    endpoint(scope).evaluate(timeout=Duration.hours(2)).require(p99_ttft_ms=500)
    template = template_of(scope)
    ((_, condition),) = waits(template).items()
    assert condition["Properties"]["Timeout"] == "7200"
    assert resource(template, EVALUATION)["WaitSeconds"] == 7200


def test_only_a_changed_requirement_or_recipe_creates_a_new_wait_condition() -> None:
    def condition(techniques: list[Any], limit: float, **overrides: Any) -> str:
        scope = stack()
        endpoint(scope, techniques=techniques, **overrides).evaluate().require(p99_ttft_ms=limit)
        (name,) = waits(template_of(scope))
        return name

    before = condition([Quantization.awq()], 500)
    assert condition([Quantization.awq()], 400) != before
    assert condition([Quantization.awq(group_size=64)], 500) != before
    assert condition([Quantization.awq()], 500, environment={"SM_VLLM_MAX_NUM_SEQS": "1"}) != before
    assert condition([Quantization.awq()], 500, instance_type="ml.g5.48xlarge") != before
    assert condition([Quantization.awq()], 500, monitoring=MonitoringOptions(discount=0.3)) == before


def test_a_changed_workload_creates_another_workload_configuration() -> None:
    def name(output_tokens: int) -> Any:
        scope = stack()
        endpoint(scope).evaluate(workload=Workload(output_tokens=output_tokens))
        return resource(template_of(scope), "AWS::SageMaker::AIWorkloadConfig")["AIWorkloadConfigName"]

    assert name(250) == name(250)
    assert name(250) != name(100)
    literal = name(250)["Fn::Join"][1][0]
    assert literal.isalnum(), "a name with anything but letters and digits could never be deleted"
    assert literal == literal.lower()


def test_a_workload_has_references_of_the_template() -> None:
    scope = stack()
    tokenizer = CfnParameter(scope, "Tokenizer").value_as_string
    endpoint(scope).evaluate(workload=Workload(tokenizer=tokenizer)).require(p99_ttft_ms=500, at_concurrency=8)
    declared = resource(template_of(scope), "AWS::SageMaker::AIWorkloadConfig")["AIWorkloadConfigs"]
    assert {"Ref": "Tokenizer"} in declared["WorkloadSpec"]["Inline"]["Fn::Join"][1]
    assert request_of(scope)["Gate"]["AtConcurrency"] == 8


def test_an_evaluation_distinguishes_lossless_from_lossy_techniques() -> None:
    lossless, lossy = stack(), stack()
    endpoint(lossless, techniques=[SpeculativeDecoding.sagemaker_draft()], instance_type="ml.p4d.24xlarge").evaluate()
    endpoint(lossy).evaluate()
    assert (request_of(lossless)["Lossless"], request_of(lossy)["Lossless"]) == (True, False)


def test_an_evaluation_names_the_artifact_of_each_instance_pool() -> None:
    scope = stack()
    pools = [
        Pool("ml.p5.48xlarge", techniques=[Quantization.fp8()]),
        Pool("ml.g5.12xlarge", techniques=[Quantization.awq()]),
    ]
    OptimizedEndpoint(scope, "Pooled", model=llama(), instance_pools=pools).evaluate()
    subjects = request_of(scope)["Subjects"]
    assert [each["InstanceType"] for each in subjects] == ["ml.p5.48xlarge", "ml.g5.12xlarge"]
    assert len({each["ArtifactKey"] for each in subjects}) == 2


def test_an_evaluation_names_the_server_of_each_instance_pool() -> None:
    """A gate's texts are sent in a form that all of them take."""
    scope = stack()
    quantized = [Quantization.awq()]
    pools = [
        Pool("ml.p5.48xlarge", techniques=quantized),
        Pool("ml.g5.12xlarge", techniques=quantized, server=Server.lmi()),
    ]
    OptimizedEndpoint(scope, "Pooled", model=llama(), instance_pools=pools).evaluate()
    assert [each["Server"] for each in request_of(scope)["Subjects"]] == ["vllm", "lmi"]


def test_the_server_of_jumpstarts_own_container_is_not_known() -> None:
    scope = stack()
    endpoint(scope, techniques=[PreOptimized()], instance_type="ml.p4d.24xlarge").evaluate()
    assert "Server" not in request_of(scope)["Subjects"][0]


def test_a_component_is_evaluated_with_its_own_dimension_and_instance_share() -> None:
    scope = stack()
    shared = OptimizedEndpoint(scope, "Shared", instance_type="ml.g5.48xlarge")
    component = shared.add_component(
        "Llama", model=llama(), techniques=[Quantization.awq(tensor_parallel_degree=4)]
    )  # fmt: skip
    component.evaluate()
    request = request_of(scope)
    assert "VariantName" not in request
    assert list(request["Dimensions"]) == ["InferenceComponentName"]
    assert request["ShareOfInstance"] == 0.5


def test_a_scheduled_evaluation_has_dashboard_graphs_and_a_stale_evaluation_alarm() -> None:
    scope = stack()
    endpoint(scope).evaluate(schedule="rate(1 day)")
    template = template_of(scope)
    assert "TimeToFirstTokenP99" in json.dumps(resource(template, "AWS::CloudWatch::Dashboard"))
    names = [alarm.get("AlarmName") for alarm in resources(template, "AWS::CloudWatch::Alarm")]
    assert any("StaleEvaluation" in str(name) for name in names)
    (schedule,) = resources(template, "AWS::Scheduler::Schedule")
    assert schedule["ScheduleExpression"] == "rate(1 day)"
    assert "<aws.scheduler.execution-id>" in json.dumps(schedule["Target"]["Input"])


def test_scheduled_and_deployment_evaluations_send_the_same_request() -> None:
    scope = stack()
    endpoint(scope).evaluate(schedule="rate(1 day)").require(p99_ttft_ms=500)
    template = template_of(scope)
    (schedule,) = resources(template, "AWS::Scheduler::Schedule")
    pieces = schedule["Target"]["Input"]["Fn::Join"][1]
    text = "".join(piece if isinstance(piece, str) else "x" for piece in pieces)
    scheduled, deployed = json.loads(text)["Request"], resource(template, EVALUATION)["Request"]
    assert set(scheduled) == set(deployed)
    assert scheduled["Gate"] == deployed["Gate"]
    assert scheduled["Workload"] == deployed["Workload"]


def test_tags_reach_the_benchmark_jobs() -> None:
    scope = stack()
    endpoint(scope).evaluate()
    Tags.of(scope).add("team", "chat")
    assert request_of(scope)["Tags"] == [{"Key": "team", "Value": "chat"}]


def test_evaluations_of_a_stack_share_their_lambda_functions() -> None:
    scope = stack()
    endpoint(scope).evaluate()
    before = len(resources(template_of(scope), "AWS::Lambda::Function"))
    another = stack()
    for name in ("One", "Two", "Three"):
        endpoint(another, name).evaluate().require()
    assert len(resources(template_of(another), "AWS::Lambda::Function")) == before


def test_all_violations_of_an_evaluation_are_reported_together() -> None:
    with pytest.raises(RecipeError) as refused:
        endpoint(stack()).evaluate(workload=Workload(parameters={"concurency": 3}), discount=2)
    assert {"OPT143", "OPT148"} <= {violation.rule for violation in refused.value.violations}


def test_evaluating_an_asynchronous_endpoint_is_refused() -> None:
    scope = stack()
    bucket = s3.Bucket.from_bucket_name(scope, "Answers", "answers-of-mine")
    with pytest.raises(RecipeError, match="OPT145"):
        endpoint(scope, async_inference=AsyncInference(bucket=bucket)).evaluate()


def test_evaluating_an_endpoint_that_only_hosts_components_is_refused() -> None:
    with pytest.raises(ValueError, match="has no model of its own: use one of its components"):
        OptimizedEndpoint(stack(), "Shared", instance_type="ml.g5.48xlarge").evaluate()


def test_evaluations_that_a_deployment_cannot_wait_for_are_refused() -> None:
    with pytest.raises(ValueError, match="a wait condition lasts at most 12 hours"):
        endpoint(stack()).evaluate(timeout=Duration.hours(13))
    scheduled = endpoint(stack()).evaluate(schedule="rate(1 day)", after_deployment=False)
    with pytest.raises(RecipeError, match="OPT146"):
        scheduled.require(p99_ttft_ms=500)
    with pytest.raises(ValueError, match="only runs on a schedule"):
        _ = scheduled.result_uri


def test_requirements_can_only_be_set_once() -> None:
    evaluation = endpoint(stack()).evaluate().require(quality=QualityRequirement(prompts="s3://prompts/gate.jsonl"))
    with pytest.raises(ValueError, match="call require once"):
        evaluation.require(p50_ttft_ms=100)


def test_an_evaluation_of_drafts_asks_for_their_acceptance() -> None:
    scope = Stack(App(), "Chat", env=Environment(region="us-west-2"))
    served = OptimizedEndpoint(
        scope,
        "Llama",
        model=Model.s3("s3://models/llama-3-8b/"),
        techniques=[SpeculativeDecoding.ngram()],
        instance_type="ml.g5.12xlarge",
        endpoint_name="chat",
    )
    served.evaluate().require(min_acceptance_length=1.5, max_regression=0.1, regression_metrics=["acceptance_length"])
    template = Template.from_stack(scope)
    [evaluation] = template.find_resources("Custom::EndpointEvaluation").values()
    request = evaluation["Properties"]["Request"]
    assert "vllm:spec_decode_num_accepted_tokens_total" in json.dumps(request["Acceptance"]["Length"])
    assert "[$window]))" in json.dumps(request["Acceptance"]["Drafts"])
    assert {"Metric": "acceptance_length", "Better": "higher"}.items() <= request["Gate"]["Compared"][0].items()
    [least] = [limit["AtLeast"] for limit in request["Gate"]["Limits"] if "AtLeast" in limit]
    assert least == 1.5
    roles = template.find_resources("AWS::IAM::Role")
    [watcher] = [role for name, role in roles.items() if name.startswith("EvaluationServiceWatcher")]
    statements = watcher["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    [asked] = [each for each in statements if each["Sid"] == "QueryEngineMetrics"]
    assert asked["Action"] == ["cloudwatch:GetMetricData", "cloudwatch:ListMetrics", "cloudwatch:QueryMetrics"]


def test_an_evaluation_without_drafts_asks_for_none() -> None:
    scope = Stack(App(), "Chat", env=Environment(region="us-west-2"))
    served = OptimizedEndpoint(
        scope, "Llama", model=Model.s3("s3://models/llama-3-8b/"), techniques=[], instance_type="ml.g5.12xlarge"
    )
    served.evaluate()
    text = json.dumps(Template.from_stack(scope).to_json())
    assert "QueryEngineMetrics" not in text
    assert "Acceptance" not in text


def test_a_limit_in_seconds_is_refused_with_the_value_in_milliseconds() -> None:
    with pytest.raises(RecipeError, match=r"(?s)OPT244 require\.p99_ttft_ms = 0\.5.*such as 500 ms for 0\.5 s"):
        endpoint(stack()).evaluate().require(p99_ttft_ms=0.5)


def test_a_limit_below_zero_is_one_finding() -> None:
    with pytest.raises(RecipeError) as refused:
        endpoint(stack()).evaluate().require(p99_ttft_ms=-3)
    assert [each.location for each in refused.value.violations] == ["require.p99_ttft_ms"]

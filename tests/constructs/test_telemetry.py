"""The functions' layer, settings and traces, in every partition."""

from __future__ import annotations

from typing import Any

import jsii
import pytest
from aws_cdk import App, Aspects, Environment, IAspect, Stack, Tags
from aws_cdk import aws_lambda as lambda_
from constructs import IConstruct

from constructs_optim import Model, Quantization, SpeculativeDecoding
from constructs_optim.constructs.stack.handler import LAYER_CONTEXT, LOG_LEVEL_CONTEXT
from constructs_optim.recipe.catalog import availability

from ..support.construct_stacks import STACKS, endpoint, resources, template_of

LAYER = "AWSLambdaPowertoolsPythonV3-python314-arm64:27"
OWN = "arn:aws:lambda:us-west-2:111122223333:layer:powertools:3"


def template(region: str | None = "us-west-2", context: dict[str, Any] | None = None) -> dict[str, Any]:
    env = Environment(account="111122223333", region=region) if region else None
    stack = Stack(App(context=context), "Chat", env=env)
    endpoint(stack, model=Model.s3("s3://models/llama/70b"))
    return template_of(stack)


def functions(found: dict[str, Any]) -> list[dict[str, Any]]:
    return resources(found, "AWS::Lambda::Function")


def layer(found: dict[str, Any]) -> Any:
    """The one layer of every function."""
    first, *others = [function["Layers"] for function in functions(found)]
    assert all(other == first for other in others)
    (only,) = first
    return only


@pytest.mark.parametrize(
    ("region", "account"),
    [
        ("us-west-2", "017000801446"),
        ("eu-central-1", "017000801446"),
        ("us-gov-west-1", "165093116878"),
        ("us-gov-east-1", "165087284144"),
        ("cn-north-1", "498634801083"),
    ],
)
def test_a_stack_with_a_region_uses_that_regions_layer_account(region: str, account: str) -> None:
    # The partition is CloudFormation's to fill in: aws, aws-us-gov or aws-cn.
    expected = f"arn:${{AWS::Partition}}:lambda:${{AWS::Region}}:{account}:layer:{LAYER}"
    assert layer(template(region)) == {"Fn::Sub": expected}


def test_an_environment_agnostic_stack_resolves_the_layer_account_by_mapping() -> None:
    found = template(None)
    text, variables = layer(found)["Fn::Sub"]
    assert text == "arn:${AWS::Partition}:lambda:${AWS::Region}:${Account}:layer:" + LAYER
    mapping, region, field = variables["Account"]["Fn::FindInMap"]
    assert region == {"Ref": "AWS::Region"}
    rows = found["Mappings"][mapping]
    assert {name: row[field] for name, row in rows.items()} == availability.powertools().accounts


def test_the_layer_matches_the_runtime_and_architecture_of_the_functions() -> None:
    for function in functions(template()):
        (architecture,) = function["Architectures"]
        python = function["Runtime"].replace(".", "")
        assert availability.powertools().name.endswith(f"-{python}-{architecture}")


@pytest.mark.parametrize("region", ["cn-northwest-1", "ca-west-1"])
def test_a_region_without_the_layer_is_refused_with_an_alternative(region: str) -> None:
    with pytest.raises(ValueError, match=region) as refused:
        template(region)
    assert LAYER_CONTEXT in str(refused.value)
    assert availability.powertools().release in str(refused.value)


def test_a_custom_layer_arn_works_in_any_region() -> None:
    assert layer(template("cn-northwest-1", {LAYER_CONTEXT: OWN})) == OWN
    assert layer(template(None, {LAYER_CONTEXT: OWN})) == OWN


def test_a_custom_layer_arn_may_contain_region_and_account_placeholders() -> None:
    everywhere = "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:layer:powertools:3"
    found = template(None, {LAYER_CONTEXT: everywhere})
    assert layer(found) == {"Fn::Sub": everywhere}
    assert "PowertoolsLayers" not in found["Mappings"]


@pytest.mark.parametrize("arn", ["powertools", "", 3, OWN.rpartition(":")[0], OWN + "*", "${Secret}"])
def test_an_invalid_layer_version_arn_is_refused(arn: object) -> None:
    with pytest.raises(ValueError, match=LAYER_CONTEXT):
        template(context={LAYER_CONTEXT: arn})


def test_every_function_has_active_tracing_and_permission_to_send_traces() -> None:
    stack = Stack(App(), "Chat")
    STACKS["draft"](stack)
    found = template_of(stack)
    assert len(functions(found)) == 7
    assert {function["TracingConfig"]["Mode"] for function in functions(found)} == {"Active"}
    for function in functions(found):
        role = found["Resources"][function["Role"]["Fn::GetAtt"][0]]
        (policy,) = role["Properties"]["Policies"]
        (trace,) = [s for s in policy["PolicyDocument"]["Statement"] if s["Sid"] == "Trace"]
        assert trace["Action"] == ["xray:PutTelemetryRecords", "xray:PutTraceSegments"]


def test_function_metrics_and_logs_carry_the_handler_name() -> None:
    settings = {function["Handler"]: function["Environment"]["Variables"] for function in functions(template())}
    assert {handler: found["POWERTOOLS_SERVICE_NAME"] for handler, found in settings.items()} == {
        "runtime.handlers.job_handler.handler": "job_handler",
        "runtime.handlers.job_watcher.handler": "job_watcher",
        "runtime.handlers.preflight_handler.handler": "preflight_handler",
        "runtime.handlers.serving_handler.handler": "serving_handler",
    }
    assert {found["POWERTOOLS_METRICS_NAMESPACE"] for found in settings.values()} == {"ConstructsOptim"}
    assert {found["POWERTOOLS_LOG_LEVEL"] for found in settings.values()} == {"INFO"}


def test_the_log_level_comes_from_the_cdk_context() -> None:
    for function in functions(template(context={LOG_LEVEL_CONTEXT: "ERROR"})):
        assert function["Environment"]["Variables"]["POWERTOOLS_LOG_LEVEL"] == "ERROR"


def test_an_invalid_log_level_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match="'verbose': use one of DEBUG, INFO"):
        template(context={LOG_LEVEL_CONTEXT: "verbose"})


@jsii.implements(IAspect)
class Functions:
    """An aspect that records the functions it visits."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.invocations: list[str] = []

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, lambda_.CfnFunction):
            self.seen.append(node.node.path)
        if isinstance(node, lambda_.CfnEventInvokeConfig):
            self.invocations.append(node.node.path)


def test_tags_and_aspects_for_functions_reach_the_functions() -> None:
    app = App()
    scope = Stack(app, "Chat", env=Environment(account="111122223333", region="us-west-2"))
    endpoint(scope, techniques=[Quantization.awq(), SpeculativeDecoding.sagemaker_draft()])
    Tags.of(app).add("team", "nlp")
    aspect = Functions()
    Aspects.of(app).add(aspect)
    found = template_of(scope)
    declared = functions(found)
    assert len(declared) == len(aspect.seen) == 5
    assert all({"Key": "team", "Value": "nlp"} in function["Tags"] for function in declared)
    assert len(aspect.invocations) == len(resources(found, "AWS::Lambda::EventInvokeConfig")) > 0

"""What CDK users expect of any construct: imports, grants, tags, connections, stages, pipelines."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from aws_cdk import App, CfnParameter, CfnResource, Environment, NestedStack, Stack, Stage, Tags, pipelines
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codecommit as codecommit
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match, Template
from constructs import Construct

from constructs_optim import (
    Adapters,
    AsyncInference,
    IOptimizedEndpoint,
    Model,
    NetworkOptions,
    OptimizedEndpoint,
    Pool,
    Quantization,
    Server,
    SpeculativeDecoding,
)

from ..support.construct_stacks import ENVIRONMENT, endpoint, llama, resource, resources, stack, template_of
from ..support.sampling import one_in


def caller(scope: Construct) -> iam.Role:
    return iam.Role(scope, "Caller", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))


def granted(template: dict[str, Any]) -> list[tuple[list[str], str]]:
    statements = resource(template, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    return [(each["Action"], json.dumps(each["Resource"])) for each in statements]


def test_imported_and_declared_endpoints_implement_the_same_interface() -> None:
    scope = stack()
    imported = OptimizedEndpoint.from_endpoint_name(scope, "Chat", "Chat-70B")
    assert isinstance(imported, IOptimizedEndpoint)
    assert isinstance(endpoint(scope), IOptimizedEndpoint)


def test_grants_on_an_imported_endpoint_use_its_lowercase_arn() -> None:
    scope = stack()
    OptimizedEndpoint.from_endpoint_name(scope, "Chat", "Chat-70B").grant_invoke(caller(scope))
    (actions, on), bearer = granted(template_of(scope))
    assert actions == ["sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"]
    assert ":endpoint/chat-70b" in on
    assert bearer == ("sagemaker:CallWithBearerToken", '"*"')


def test_the_openai_base_url_names_region_endpoint_and_component() -> None:
    scope = stack()
    arn = "arn:aws:sagemaker:eu-west-1:111122223333:endpoint/chat"
    imported = OptimizedEndpoint.from_endpoint_attributes(
        scope, "Chat", endpoint_arn=arn, inference_component_name="Small"
    )
    resolved = json.dumps(scope.resolve(imported.openai_base_url))
    assert "https://runtime.sagemaker.eu-west-1." in resolved
    assert "/endpoints/chat/inference-components/Small/openai/v1" in resolved
    own = json.dumps(scope.resolve(endpoint(scope, "Own").openai_base_url))
    assert "runtime.sagemaker.us-west-2." in own
    assert "/openai/v1" in own
    assert "inference-components" not in own


@pytest.mark.parametrize(
    ("region", "partition", "suffix"),
    [("cn-north-1", "aws-cn", "amazonaws.com.cn"), ("us-gov-west-1", "aws-us-gov", "amazonaws.com")],
)
def test_the_openai_base_url_of_an_endpoint_elsewhere_has_its_partitions_suffix(
    region: str, partition: str, suffix: str
) -> None:
    arn = f"arn:{partition}:sagemaker:{region}:111122223333:endpoint/chat"
    url = OptimizedEndpoint.from_endpoint_arn(stack(), "Chat", arn).openai_base_url
    assert url == f"https://runtime.sagemaker.{region}.{suffix}/endpoints/chat/openai/v1"


def test_an_asynchronous_endpoint_is_invoked_asynchronously_only() -> None:
    scope = stack()
    created = endpoint(scope, async_inference=AsyncInference(bucket=s3.Bucket(scope, "Answers")))
    role = caller(scope)
    with pytest.raises(ValueError, match=r"asynchronous.*only supports InvokeEndpointAsync"):
        created.openai_base_url  # noqa: B018 - the property refuses
    with pytest.raises(ValueError, match=r"a permission has no effect: use grant_invoke_async"):
        created.grant_invoke(role)
    created.grant_invoke_async(role)
    policies = resources(template_of(scope), "AWS::IAM::Policy")
    assert any("sagemaker:InvokeEndpointAsync" in json.dumps(policy) for policy in policies)


def test_an_endpoint_without_a_model_has_no_openai_base_url() -> None:
    shared = OptimizedEndpoint(stack(), "Shared", instance_type="ml.g5.12xlarge")
    with pytest.raises(ValueError, match="no model of its own: the"):
        shared.openai_base_url  # noqa: B018 - the property refuses


def test_an_adapter_has_no_openai_base_url() -> None:
    shared = OptimizedEndpoint(stack(), "Shared", instance_type="ml.g5.12xlarge")
    served = Server.vllm(adapters=Adapters(max_loaded=2))
    base = shared.add_component("Chat", model=llama(), techniques=[Quantization.awq()], server=served)
    assert base.openai_base_url.endswith("/openai/v1")
    adapter = base.add_adapter("Sql", artifact_uri="s3://adapters/sql.tar.gz")
    with pytest.raises(ValueError, match=r"is an adapter.* or use the URL of Chat/Shared/Chat"):
        adapter.openai_base_url  # noqa: B018 - the property refuses


@pytest.mark.parametrize(
    ("server", "warned"),
    [
        (Server.vllm(), False),
        (Server.sglang(), False),
        (Server.lmi(), True),
        (Server.text_generation_inference(), True),
    ],
    ids=["vllm", "sglang", "lmi", "text_generation_inference"],
)
def test_a_container_that_aws_does_not_list_for_the_openai_path_gives_a_warning(server: Any, warned: bool) -> None:
    scope = stack()
    created = endpoint(scope, server=server)
    assert created.openai_base_url.endswith("/openai/v1")
    annotations, about = Annotations.from_stack(scope), Match.string_like_regexp("OpenAiPath")
    if warned:
        annotations.has_warning("*", about)
    else:
        annotations.has_no_warning("*", about)


def test_an_endpoint_of_another_account_is_imported_by_its_arn() -> None:
    scope = stack()
    arn = "arn:aws:sagemaker:eu-west-1:444455556666:endpoint/chat"
    imported = OptimizedEndpoint.from_endpoint_arn(scope, "Chat", arn)
    imported.grant(caller(scope), "sagemaker:DescribeEndpoint")
    assert imported.endpoint_name == "chat"
    assert granted(template_of(scope)) == [("sagemaker:DescribeEndpoint", json.dumps(arn))]  # type: ignore[comparison-overlap]


def test_invoke_grants_include_an_imported_component_in_its_endpoints_region() -> None:
    scope = stack()
    OptimizedEndpoint.from_endpoint_attributes(
        scope,
        "Chat",
        endpoint_arn="arn:aws:sagemaker:eu-west-1:111122223333:endpoint/chat",
        inference_component_name="Small",
    ).grant_invoke(caller(scope))
    (_, on), _ = granted(template_of(scope))
    assert "sagemaker:eu-west-1:111122223333:inference-component/small" in on


def test_an_endpoint_whose_arn_is_a_token_can_be_imported() -> None:
    scope = stack(env=None)
    arn = CfnParameter(scope, "Endpoint").value_as_string
    imported = OptimizedEndpoint.from_endpoint_arn(scope, "Chat", arn)
    imported.grant_invoke_async(caller(scope))
    assert granted(template_of(scope)) == [("sagemaker:InvokeEndpointAsync", '{"Ref": "Endpoint"}')]  # type: ignore[comparison-overlap]
    assert "Fn::Split" in json.dumps(scope.resolve(imported.endpoint_name))


@pytest.mark.parametrize(
    "attributes", [{}, {"endpoint_name": "a", "endpoint_arn": "b"}, {"endpoint_arn": "arn:aws:s3:::bucket"}]
)
def test_importing_an_endpoint_requires_either_its_name_or_a_valid_arn(attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        OptimizedEndpoint.from_endpoint_attributes(stack(), "Chat", **attributes)


def test_imported_endpoints_have_metrics() -> None:
    scope = stack()
    imported: Any = OptimizedEndpoint.from_endpoint_name(scope, "Chat", "chat")
    metric = imported.metric_model_latency(statistic="p99")
    assert metric.metric_name == "ModelLatency"
    assert metric.dimensions == {"EndpointName": "chat", "VariantName": "AllTraffic"}


def test_metrics_of_an_imported_endpoint_use_its_account_and_region() -> None:
    scope = stack()
    arn = "arn:aws:sagemaker:eu-west-1:444455556666:endpoint/chat"
    imported: Any = OptimizedEndpoint.from_endpoint_arn(scope, "Chat", arn)
    drawn = [imported.metric_model_latency(), imported.metric("error_rate")]
    cloudwatch.Dashboard(scope, "Board", widgets=[[cloudwatch.GraphWidget(left=drawn)]])
    body = json.dumps(resource(template_of(scope), "AWS::CloudWatch::Dashboard")["DashboardBody"])
    assert body.count("eu-west-1") == 6, "the latency, and the five operands of the error rate"
    assert body.count("444455556666") == 6


def test_another_stack_reads_endpoint_metrics_from_the_endpoints_region() -> None:
    app = App()
    home, other = (
        Stack(app, name, env=Environment(account="111122223333", region=region))
        for name, region in (("Home", "us-west-2"), ("Other", "eu-west-1"))
    )
    metric: Any = endpoint(home).metric_invocations()
    cloudwatch.Dashboard(other, "Board", widgets=[[cloudwatch.GraphWidget(left=[metric])]])
    assert "us-west-2" in json.dumps(resource(template_of(other), "AWS::CloudWatch::Dashboard")["DashboardBody"])


def test_granting_to_an_endpoint_grants_to_its_execution_and_job_roles() -> None:
    scope = stack()
    s3.Bucket.from_bucket_name(scope, "Documents", "documents").grant_read(endpoint(scope))
    policies = resources(template_of(scope), "AWS::IAM::Policy")
    roles = {re.sub("^OptimizationService|[0-9A-F]{8}$", "", policy["Roles"][0]["Ref"]) for policy in policies}
    assert roles == {"ExecutionRole", "JobRole"}
    assert policies[0]["PolicyDocument"] == policies[1]["PolicyDocument"]


def test_what_waits_for_a_grant_to_an_endpoint_waits_for_the_policies_of_all_its_roles() -> None:
    scope = stack()
    grant = s3.Bucket.from_bucket_name(scope, "Documents", "documents").grant_read(endpoint(scope))
    grant.apply_before(CfnResource(scope, "Index", type="Custom::Index"))
    found = template_of(scope)["Resources"]
    policies = [name for name, each in found.items() if each["Type"] == "AWS::IAM::Policy"]
    assert len(policies) == 2
    assert found["Index"]["DependsOn"] == sorted(policies)


def test_granting_to_an_endpoint_with_an_existing_role_grants_to_that_role() -> None:
    scope = stack()
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    s3.Bucket.from_bucket_name(scope, "Documents", "documents").grant_read(endpoint(scope, role=role))
    granted = [p for p in resources(template_of(scope), "AWS::IAM::Policy") if "documents" in json.dumps(p)]
    assert [policy["Roles"] for policy in granted] == [[{"Ref": "Role1ABCC5F0"}]]


def test_an_endpoint_in_a_vpc_is_connectable() -> None:
    scope = stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        scope, "Vpc", vpc_id="vpc-1", availability_zones=["a"], private_subnet_ids=["subnet-1"]
    )
    database = ec2.SecurityGroup(scope, "Database", vpc=vpc)
    created = endpoint(scope, network=NetworkOptions(vpc=vpc))
    database.connections.allow_from(created, ec2.Port.tcp(5432))
    ingress = resource(template_of(scope), "AWS::EC2::SecurityGroupIngress")
    assert ingress["FromPort"] == 5432
    assert "Llama70BSecurityGroup" in json.dumps(ingress["SourceSecurityGroupId"])
    assert len(resources(template_of(scope), "AWS::EC2::SecurityGroup")) == 2


def test_connections_of_an_endpoint_outside_a_vpc_raise_an_error() -> None:
    with pytest.raises(ValueError, match="is not in a VPC"):
        _ = endpoint(stack()).connections


def test_stack_tags_reach_the_endpoint_its_jobs_models_and_alarms() -> None:
    scope = stack()
    endpoint(scope, techniques=[Quantization.awq(), SpeculativeDecoding.sagemaker_draft()])
    Tags.of(scope).add("team", "chat")
    template = template_of(scope)
    tagged = {
        r["Type"]
        for r in template["Resources"].values()
        if {"Key": "team", "Value": "chat"} in (r.get("Properties", {}).get("Tags") or [])
    }
    assert tagged >= {
        "AWS::SageMaker::Endpoint",
        "AWS::SageMaker::EndpointConfig",
        "Custom::OptimizedModel",
        "Custom::OptimizationJob",
        "AWS::CloudWatch::Alarm",
    }
    assert len(resource(template, "Custom::OptimizedModel")["Tags"]) == 2
    assert [name for name, r in template["Resources"].items() if "tags" in r.get("Properties", {})] == []


def test_an_endpoint_declares_no_stack_outputs() -> None:
    scope = stack()
    endpoint(scope).auto_scale(max_capacity=2).on_concurrency()
    assert "Outputs" not in template_of(scope)


def test_a_stack_in_the_same_environment_refers_to_the_endpoint_by_export() -> None:
    app = App()
    serving, consuming = (Stack(app, name, env=ENVIRONMENT) for name in ("Serving", "Consuming"))
    endpoint(serving).grant_invoke(caller(consuming))
    statement = resource(template_of(consuming), "AWS::IAM::Policy")["PolicyDocument"]["Statement"][0]
    assert "Fn::ImportValue" in json.dumps(statement["Resource"])


def test_another_account_refers_to_the_endpoint_by_its_name() -> None:
    app = App()
    serving = Stack(app, "Serving", env=ENVIRONMENT)
    consuming = Stack(app, "Consuming", env=Environment(account="444455556666", region="eu-west-1"))
    created = endpoint(serving)
    s3.Bucket(consuming, "Bucket", bucket_name=None).node.add_metadata("endpoint", created.endpoint_name)
    CfnParameter(consuming, "Endpoint", default=created.endpoint_name)
    assert re.fullmatch(
        r"serving-llama70b-[0-9a-f]{8}", template_of(consuming)["Parameters"]["Endpoint"]["Default"]
    )  # fmt: skip


@pytest.mark.parametrize("grant", ["grant_invoke", "grant_invoke_async", "grant_read"])
def test_granting_to_a_principal_of_another_account_is_refused_with_an_alternative(grant: str) -> None:
    app = App()
    serving = Stack(app, "Serving", env=ENVIRONMENT)
    consuming = Stack(app, "Consuming", env=Environment(account="444455556666", region="us-west-2"))
    created = endpoint(serving)
    of_arn = iam.ArnPrincipal("arn:aws:iam::444455556666:role/chat")
    for principal in (caller(consuming), iam.AccountPrincipal("444455556666"), of_arn):
        with pytest.raises(ValueError, match=r"account 111122223333, and the principal in account 444455556666") as e:
            getattr(created, grant)(principal)
        assert 'assumed_by=iam.AccountPrincipal("444455556666")' in str(e.value)


@pytest.mark.parametrize(
    "principal",
    [
        iam.AccountPrincipal("111122223333"),
        iam.AccountRootPrincipal(),
        iam.ArnPrincipal("arn:aws:iam::111122223333:role/chat"),
        iam.CompositePrincipal(iam.ArnPrincipal("arn:aws:iam::111122223333:role/chat")),
        iam.ServicePrincipal("lambda.amazonaws.com"),
    ],
    ids=lambda principal: type(principal).__name__,
)
@pytest.mark.parametrize("env", one_in(2, [ENVIRONMENT, None]), ids=["account", "any account"])
def test_a_principal_that_no_policy_can_be_attached_to_is_refused(
    principal: iam.IPrincipal, env: Environment | None
) -> None:
    created = endpoint(stack(env=env))
    for grant in (created.grant_invoke, lambda grantee: created.grant(grantee, "sagemaker:UpdateEndpoint")):
        kind = type(principal).__name__
        with pytest.raises(
            ValueError, match=rf"no policy can be attached to {kind}, .*Grant it to a role, user or group"
        ):
            grant(principal)


def test_granting_to_an_imported_function_without_a_role_gives_the_cdk_warning() -> None:
    scope = stack()
    function = lambda_.Function.from_function_arn(
        scope, "Caller", "arn:aws:lambda:us-west-2:111122223333:function:chat"
    )
    endpoint(scope).grant_invoke(function)
    Annotations.from_stack(scope).has_warning(
        "/Chat/Caller", Match.string_like_regexp("Add statement to this resource")
    )


def test_granting_to_a_fixed_account_warns_in_an_environment_agnostic_stack() -> None:
    scope = stack(env=None)
    role = iam.Role.from_role_arn(scope, "Caller", "arn:aws:iam::444455556666:role/chat")
    assert endpoint(scope).grant_invoke(role).success
    expected = r"Chat/Llama70B is granted to a principal of account 444455556666.*GrantedAccount"
    Annotations.from_stack(scope).has_warning("/Chat/Llama70B", Match.string_like_regexp(expected))


def test_granting_to_principals_of_the_endpoints_account_gives_no_warning() -> None:
    known, any_account = stack(), stack(env=None)
    imported = iam.Role.from_role_arn(known, "Imported", "arn:aws:iam::111122223333:role/chat")
    for scope, grantee in ((known, imported), (known, caller(known)), (any_account, caller(any_account))):
        assert endpoint(scope, f"Of{grantee.node.id}").grant_invoke(grantee).success
        Annotations.from_stack(scope).has_no_warning("*", Match.string_like_regexp("GrantedAccount"))


def test_a_role_that_another_account_may_assume_can_be_granted_invocation() -> None:
    serving = stack()
    invoker = iam.Role(serving, "Invoker", assumed_by=iam.AccountPrincipal("444455556666"))
    assert endpoint(serving).grant_invoke(invoker).success
    assert [action for action, _ in granted(template_of(serving))]


def test_granting_a_component_to_another_account_is_refused() -> None:
    serving = stack()
    shared = OptimizedEndpoint(serving, "Shared", instance_type="ml.g5.12xlarge")
    component = shared.add_component("Chat", model=Model.s3("s3://models/chat/"), techniques=[Quantization.awq()])
    with pytest.raises(ValueError, match="a request names an endpoint of the caller's own account"):
        component.grant_invoke(iam.AccountPrincipal("444455556666"))


def test_granting_to_a_role_in_another_region_uses_the_endpoint_arn() -> None:
    app = App()
    serving = Stack(app, "Serving", env=ENVIRONMENT)
    consuming = Stack(app, "Consuming", env=Environment(account="111122223333", region="eu-west-1"))
    endpoint(serving).grant_invoke(caller(consuming))
    statement = resource(template_of(consuming), "AWS::IAM::Policy")["PolicyDocument"]["Statement"][0]
    assert re.search(r":sagemaker:us-west-2:111122223333:endpoint/serving-llama70b-", json.dumps(statement["Resource"]))


def test_an_endpoint_inside_a_stage_keeps_its_logical_ids() -> None:
    app = App()
    stage = Stage(app, "Prod", env=ENVIRONMENT)
    inside, outside = Stack(stage, "Chat"), Stack(App(), "Chat", env=ENVIRONMENT)
    endpoint(inside)
    endpoint(outside)
    of_stage = stage.synth().get_stack_artifact(inside.artifact_id).template
    assert set(of_stage["Resources"]) == set(template_of(outside)["Resources"])
    assert resource(of_stage, "AWS::SageMaker::Endpoint")["EndpointName"].startswith("prod-chat-llama70b-")


def test_an_endpoint_inside_a_nested_stack_is_named_after_the_stack_id() -> None:
    scope = stack()
    nested = NestedStack(scope, "Nested")
    endpoint(nested)  # type: ignore[arg-type]
    name = resource(Template.from_stack(nested).to_json(), "AWS::SageMaker::Endpoint")["EndpointName"]
    prefix, uuid = name["Fn::Join"][1]
    assert re.fullmatch(r"llama70b-[0-9a-f]{8}-", prefix)
    assert uuid == {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
    assert len(prefix) + 36 <= 63


def test_a_pipeline_deploys_an_endpoint() -> None:
    app = App()
    hub = Stack(app, "Pipeline", env=ENVIRONMENT)
    repository = codecommit.Repository.from_repository_name(hub, "Repository", "chat")
    source = pipelines.CodePipelineSource.code_commit(repository, "main")
    pipeline = pipelines.CodePipeline(
        hub, "Pipeline", synth=pipelines.ShellStep("Synth", input=source, commands=["cdk synth"])
    )
    stage = Stage(app, "Prod", env=ENVIRONMENT)
    endpoint(Stack(stage, "Chat"))
    pipeline.add_stage(stage)
    stages = resource(template_of(hub), "AWS::CodePipeline::Pipeline")["Stages"]
    assert [each["Name"] for each in stages] == ["Source", "Build", "UpdatePipeline", "Assets", "Prod"]


def test_pool_order_sets_their_priority_without_changing_logical_ids() -> None:
    def created(*types: str) -> dict[str, Any]:
        scope = stack()
        techniques = {"ml.p5.48xlarge": [Quantization.fp8()], "ml.g5.12xlarge": [Quantization.awq()]}
        OptimizedEndpoint(
            scope, "Chat", model=llama(), instance_pools=[Pool(name, techniques[name]) for name in types]
        )  # fmt: skip
        return template_of(scope)

    one, other = created("ml.p5.48xlarge", "ml.g5.12xlarge"), created("ml.g5.12xlarge", "ml.p5.48xlarge")
    assert set(one["Resources"]) == set(other["Resources"])
    first, second = (
        [(pool["InstanceType"], pool["Priority"]) for pool in variant["InstancePools"]]
        for template in (one, other)
        for variant in resource(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    )
    assert first == [("ml.p5.48xlarge", 1), ("ml.g5.12xlarge", 2)]
    assert second == [("ml.g5.12xlarge", 1), ("ml.p5.48xlarge", 2)]


def test_a_violation_in_an_instance_pool_names_the_pool() -> None:
    from constructs_optim import RecipeError

    with pytest.raises(RecipeError) as caught:
        OptimizedEndpoint(
            stack(),
            "Chat",
            model=llama(),
            instance_pools=[
                Pool("ml.p5.48xlarge", [Quantization.fp8()]),
                Pool("ml.g5.12xlage", [Quantization.awq(), Quantization.awq()]),
            ],
        )
    assert {violation.location for violation in caught.value.violations} == {
        "instance_pools[1].instance_type",
        "instance_pools[1].techniques[1]",
    }

from __future__ import annotations

import functools
import json
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from aws_cdk import App, CfnParameter, Duration, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

import constructs_optim
from constructs_optim import (
    AnswerCheck,
    ArtifactStore,
    Compilation,
    JobOptions,
    Model,
    NetworkOptions,
    OptimizedEndpoint,
    Pool,
    PreOptimized,
    Quantization,
    RecipeError,
    Server,
    ShadowCandidate,
    Sharding,
    SpeculativeDecoding,
    VariantOptions,
)

from ..support.construct_stacks import LLAMA_70B, endpoint, llama, resource, resources, stack, template_of
from ..support.documents import CHECKOUT


def test_a_model_has_the_planned_image_and_the_artifact_of_the_wait_condition() -> None:
    scope = stack()
    created = endpoint(scope)
    template = template_of(scope)
    (ready,) = [name for name, r in template["Resources"].items() if r["Type"] == "AWS::CloudFormation::WaitCondition"]
    model = resource(template, "AWS::SageMaker::Model")
    container = model["PrimaryContainer"]
    signaled = {"Fn::Split": ["|", {"Fn::GetAtt": [ready, "Data"]}]}
    assert container["Image"] == created.plan.container.image
    assert "/vllm:" in container["Image"]
    source = container["ModelDataSource"]["S3DataSource"]
    assert source == {
        "CompressionType": "None",
        "S3DataType": "S3Prefix",
        "S3Uri": {"Fn::Select": [2, signaled]},
    }
    assert model["EnableNetworkIsolation"] is True


def test_a_model_in_s3_gets_an_hour_each_for_download_and_startup() -> None:
    scope = stack()
    endpoint(scope, model=Model.s3("s3://models/llama/70b"), variant=VariantOptions(initial_instance_count=2))
    (variant,) = resource(template_of(scope), "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert variant["ModelDataDownloadTimeoutInSeconds"] == 3600
    assert variant["ContainerStartupHealthCheckTimeoutInSeconds"] == 3600
    assert variant["InitialInstanceCount"] == 2
    assert variant["InstanceType"] == "ml.g5.12xlarge"


def test_a_hub_model_gets_the_timeouts_of_its_hub_document() -> None:
    scope = stack()
    endpoint(scope)
    template = template_of(scope)
    (job,) = [name for name, r in template["Resources"].items() if r["Type"] == "Custom::OptimizationJob"]
    (variant,) = resource(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert variant["ModelDataDownloadTimeoutInSeconds"] == {"Fn::GetAtt": [job, "ModelDataDownloadTimeout"]}
    assert variant["ContainerStartupHealthCheckTimeoutInSeconds"] == {"Fn::GetAtt": [job, "ContainerStartupTimeout"]}


def test_an_endpoint_without_an_explicit_name_is_named_after_its_construct_path() -> None:
    scope = stack()
    endpoint(scope, "Unnamed")
    endpoint(scope, "Named", endpoint_name="chat", variant=VariantOptions(name="main"))
    template = template_of(scope)
    unnamed, named = [properties["EndpointName"] for properties in resources(template, "AWS::SageMaker::Endpoint")]
    assert re.fullmatch(r"chat-unnamed-[0-9a-f]{8}", unnamed)
    assert named == "chat"
    variants = [
        c["ProductionVariants"][0]["VariantName"] for c in resources(template, "AWS::SageMaker::EndpointConfig")
    ]
    assert variants == ["AllTraffic", "main"]


def test_a_changed_recipe_replaces_only_the_wait_handle_and_condition() -> None:
    def ids(**overrides: Any) -> set[str]:
        scope = stack()
        endpoint(scope, **overrides)
        return set(template_of(scope)["Resources"])

    before, after = ids(), ids(techniques=[Quantization.awq(group_size=64)])
    assert {name.split("Optimization")[1][:5] for name in before - after} == {"Handl", "Ready"}
    assert len(before - after) == len(after - before) == 2


@pytest.mark.parametrize(
    "overrides",
    [
        {"variant": VariantOptions(initial_instance_count=3)},
        {"endpoint_name": "chat"},
        {"environment": {"SM_VLLM_MAX_MODEL_LEN": "4096"}},
        {"jobs": JobOptions(max_runtime=Duration.hours(3))},
    ],
)
def test_settings_that_do_not_affect_the_artifact_keep_the_wait_condition(overrides: dict[str, Any]) -> None:
    def ids(**overrides: Any) -> set[str]:
        scope = stack()
        endpoint(scope, **overrides)
        return set(template_of(scope)["Resources"])

    assert ids() == ids(**overrides)


def test_another_artifact_store_gets_a_new_wait_condition() -> None:
    def conditions(name: str) -> set[str]:
        scope = stack()
        endpoint(scope, artifact_store=ArtifactStore(scope, name))
        template = template_of(scope)
        return {name for name, r in template["Resources"].items() if r["Type"] == "AWS::CloudFormation::WaitCondition"}

    assert conditions("One") != conditions("Two")


def test_endpoints_of_a_stack_share_functions_state_machine_roles_and_bucket() -> None:
    scope = stack()
    for number in range(3):
        endpoint(scope, f"Endpoint{number}")
    template = template_of(scope)
    assert len(resources(template, "AWS::Lambda::Function")) == 4
    assert len(resources(template, "AWS::StepFunctions::StateMachine")) == 1
    assert len(resources(template, "AWS::IAM::Role")) == 7
    assert len(resources(template, "AWS::S3::Bucket")) == 1


def test_grant_invoke_allows_invocation_and_streaming_of_this_endpoint_only() -> None:
    scope = stack()
    created = endpoint(scope)
    created.grant_invoke(iam.Role(scope, "Caller", assumed_by=iam.AccountRootPrincipal()))
    statement, bearer = resource(template_of(scope), "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    assert statement["Action"] == ["sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"]
    assert bearer == {"Action": "sagemaker:CallWithBearerToken", "Effect": "Allow", "Resource": "*"}
    assert statement["Resource"] == scope.resolve(created.endpoint_arn)
    assert statement["Resource"]["Ref"].startswith("Llama70B")


def test_endpoint_names_and_arns_are_cloudformation_references() -> None:
    scope = stack()
    created = endpoint(scope)
    assert scope.resolve(created.endpoint_name)["Fn::GetAtt"][1] == "EndpointName"
    assert "Ref" in scope.resolve(created.endpoint_arn)
    assert scope.resolve(created.dashboard.dashboard_name) == {"Ref": "Llama70BDashboard553B9EF2"}


def test_the_job_and_the_model_use_the_configured_vpc() -> None:
    scope = stack()
    vpc = ec2.Vpc(scope, "Vpc", max_azs=2)
    group = ec2.SecurityGroup(scope, "Group", vpc=vpc)
    endpoint(
        scope,
        network=NetworkOptions(
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
            security_groups=[group],
        ),
    )
    template = template_of(scope)
    model = resource(template, "AWS::SageMaker::Model")["VpcConfig"]
    job = resource(template, "Custom::OptimizationJob")["Request"]["VpcConfig"]
    assert model["Subnets"] == job["Subnets"]
    assert len(model["Subnets"]) == 2
    assert model["SecurityGroupIds"] == job["SecurityGroupIds"] == [scope.resolve(group.security_group_id)]


def test_subnets_without_their_vpc_are_refused() -> None:
    with pytest.raises(ValueError, match="pass vpc as well"):
        endpoint(stack(), network=NetworkOptions(vpc_subnets=ec2.SubnetSelection(one_per_az=True)))


def test_the_model_uri_role_and_network_may_be_tokens() -> None:
    scope = stack()

    def parameter(name: str) -> str:
        return CfnParameter(scope, name).value_as_string

    vpc = ec2.Vpc.from_vpc_attributes(
        scope,
        "Vpc",
        vpc_id=parameter("VpcId"),
        availability_zones=["a", "b"],
        private_subnet_ids=[parameter("S1"), parameter("S2")],
    )
    endpoint(
        scope,
        model=Model.s3(parameter("ModelUri")),
        role=iam.Role.from_role_arn(scope, "Role", parameter("RoleArn"), mutable=False),
        network=NetworkOptions(vpc=vpc),
    )
    template = template_of(scope)
    job = resource(template, "Custom::OptimizationJob")
    assert job["Source"]["S3Uri"] == {"Ref": "ModelUri"}
    assert job["RoleArn"] == {"Ref": "RoleArn"}
    assert job["Request"]["VpcConfig"]["Subnets"] == [{"Ref": "S1"}, {"Ref": "S2"}]
    assert "${Token[" not in json.dumps(template)


def test_a_model_uri_token_gives_the_same_logical_ids_at_every_synth() -> None:
    def ids(parameters_before: int) -> set[str]:
        scope = stack()
        for number in range(parameters_before):
            CfnParameter(scope, f"Other{number}").value_as_string  # noqa: B018 - numbers the tokens differently
        endpoint(scope, model=Model.s3(CfnParameter(scope, "ModelUri").value_as_string))
        return set(template_of(scope)["Resources"])

    assert ids(0) == ids(5)


def test_an_imported_immutable_role_gets_no_policy() -> None:
    scope = stack()
    endpoint(scope, role=iam.Role.from_role_arn(scope, "Role", "arn:aws:iam::111122223333:role/mine", mutable=False))
    assert not resources(template_of(scope), "AWS::IAM::Policy")


def test_an_existing_role_gets_its_permissions_before_the_job_starts() -> None:
    scope = stack()
    endpoint(scope, role=iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com")))
    template = template_of(scope)
    (policy,) = [name for name, r in template["Resources"].items() if r["Type"] == "AWS::IAM::Policy"]
    (job,) = [r for r in template["Resources"].values() if r["Type"] == "Custom::OptimizationJob"]
    assert policy in job["DependsOn"]


def test_an_environment_agnostic_stack_resolves_its_registry_by_mapping() -> None:
    scope = Stack(App(), "Anywhere")
    endpoint(scope)
    template = template_of(scope)
    assert template["Mappings"]["DeepLearningContainers"]["eu-south-1"] == {"Account": "692866216735"}
    config = resource(template, "Custom::OptimizationJob")["Request"]["OptimizationConfigs"][0]
    image = json.dumps(config["ModelQuantizationConfig"]["Image"])
    assert "Fn::FindInMap" in image
    assert "us-west-2" not in image


BAD: dict[str, Any] = {
    "model": Model.jumpstart("meta-textgeneration-lama-3-70b-instruct"),
    "techniques": [Quantization.awq(), Quantization.awq()],
    "instance_type": "ml.m5.xlarge",
}


def test_invalid_input_is_refused_with_all_violations_before_adding_resources() -> None:
    scope = stack()
    with pytest.raises(RecipeError) as caught:
        OptimizedEndpoint(scope, "Bad", **BAD)
    assert [violation.rule for violation in caught.value.violations] == ["OPT002", "OPT011", "OPT022"]
    assert LLAMA_70B in str(caught.value)
    assert template_of(scope).get("Resources", {}) == {}


def test_quantizing_quantized_weights_is_refused() -> None:
    model = Model.jumpstart("meta-textgeneration-llama-3-1-405b-fp8", accept_eula=True)
    with pytest.raises(RecipeError, match="OPT023"):
        endpoint(stack(), model=model, instance_type="ml.p5.48xlarge")


def test_an_unaccepted_license_is_refused_with_its_name() -> None:
    with pytest.raises(RecipeError, match=r"(?s)Llama 2.*accept_eula=True"):
        endpoint(stack(), model=Model.jumpstart("meta-textgeneration-llama-2-70b", version="4.0.0"))


def test_an_unpinned_version_gives_a_warning_and_an_artifact_key_token() -> None:
    scope = stack()
    created = endpoint(scope, model=Model.jumpstart(LLAMA_70B, accept_eula=True))
    assert scope.resolve(created.artifact.artifact_key) == {"Ref": "Llama70BOptimizationE18A58CB"}
    (warning,) = [entry for entry in created.artifact.node.metadata if "warning" in entry.type]
    assert "constructs-optim:OPT006" in warning.data


def test_a_pinned_recipe_has_its_artifact_key_at_synth_time() -> None:
    created = endpoint(stack())
    assert created.artifact.artifact_key == created.plan.jobs[-1].artifact_key
    assert len(created.artifact.artifact_key) == 64


def test_credentials_in_the_environment_do_not_reach_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-write-me-down")
    scope = stack()
    endpoint(scope)
    assert "do-not-write-me-down" not in json.dumps(template_of(scope))


@pytest.mark.parametrize(
    ("techniques", "instance_type", "members"),
    [
        ([Quantization.fp8()], "ml.p5.48xlarge", ["ModelQuantizationConfig"]),
        ([Compilation.neuron()], "ml.trn1.32xlarge", ["ModelCompilationConfig"]),
        (
            [Quantization.smoothquant(), Compilation.tensorrt_llm()],
            "ml.p4d.24xlarge",
            ["ModelQuantizationConfig", "ModelCompilationConfig"],
        ),
    ],
)
def test_technique_combinations_of_one_job_are_declared_as_planned(
    techniques: list[Any], instance_type: str, members: list[str]
) -> None:
    scope = stack()
    created = endpoint(scope, techniques=techniques, instance_type=instance_type)
    template = template_of(scope)
    configs = resource(template, "Custom::OptimizationJob")["Request"]["OptimizationConfigs"]
    assert [next(iter(config)) for config in configs] == members
    environment = resource(template, "AWS::SageMaker::Model")["PrimaryContainer"]["Environment"]
    assert environment == created.plan.container.environment


def test_a_draft_model_is_a_channel_of_the_custom_model_resource() -> None:
    scope = stack()
    created = endpoint(scope, techniques=[Quantization.awq(), SpeculativeDecoding.sagemaker_draft()])
    template = template_of(scope)
    assert not resources(template, "AWS::SageMaker::Model")
    model = resource(template, "Custom::OptimizedModel")
    assert model["Channels"] == [
        {
            "Name": "draft_model",
            "Source": {
                "Kind": "hub_draft",
                "HubName": "SageMakerPublicHub",
                "ModelId": LLAMA_70B,
                "Version": "2.25.0",
                "AcceptEula": True,
            },
        }
    ]
    assert model["Image"] == created.plan.container.image, "not the recommended one, which may ignore the draft"
    assert model["Environment"]["OPTION_SPECULATIVE_DRAFT_MODEL"].endswith("/draft_model")
    assert model["Source"]["Kind"] == "artifact"
    assert model["EnableNetworkIsolation"] is True
    (variant,) = resource(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert "Ref" in variant["ModelName"]


def test_a_draft_model_without_quantization_needs_no_job() -> None:
    scope = stack()
    created = endpoint(
        scope,
        techniques=[SpeculativeDecoding.custom_draft(uri="s3://drafts/one/")],
        instance_type="ml.p4d.24xlarge",
    )
    template = template_of(scope)
    assert not resources(template, "Custom::OptimizationJob")
    assert resource(template, "Custom::OptimizedModel")["Source"]["Kind"] == "hub"
    with pytest.raises(ValueError, match="needs no job"):
        _ = created.artifact.artifact_key


def test_a_model_that_is_served_as_it_is_may_be_pinned_by_a_manifest() -> None:
    scope = stack()
    pinned = Model.s3("s3://models/mine/", manifest_uri="s3://manifests/mine.csv", manifest_etag="0a1b")
    endpoint(scope, model=pinned, techniques=[SpeculativeDecoding.ngram()], instance_type="ml.p4d.24xlarge")
    template = template_of(scope)
    source = resource(template, "Custom::OptimizedModel")["Source"]
    assert (source["ManifestS3Uri"], source["ManifestEtag"]) == ("s3://manifests/mine.csv", "0a1b")
    statements = [
        s for role in resources(template, "AWS::IAM::Role") for s in role["Policies"][0]["PolicyDocument"]["Statement"]
    ]
    (read,) = [statement for statement in statements if statement["Sid"] == "ReadModelManifest"]
    assert json.dumps(read["Resource"]).endswith(':s3:::", "manifests/mine.csv"]]}')


def test_shards_are_built_from_the_quantized_artifact_and_served_by_a_component() -> None:
    scope = stack()
    created = endpoint(scope, techniques=[Quantization.awq(), Sharding.fast_load()])
    created.auto_scale(max_capacity=3).on_concurrency(target=4)
    created.grant_invoke(iam.Role(scope, "Caller", assumed_by=iam.AccountRootPrincipal()))
    template = template_of(scope)
    first, second = resources(template, "Custom::OptimizationJob")
    assert first["Source"]["Kind"] == "hub"
    assert second["Source"]["Kind"] == "artifact"
    (ready, _) = [n for n, r in template["Resources"].items() if r["Type"] == "AWS::CloudFormation::WaitCondition"]
    assert second["Source"]["S3Uri"]["Fn::Select"][1]["Fn::Split"][1] == {"Fn::GetAtt": [ready, "Data"]}
    (variant,) = resource(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert "ModelName" not in variant
    component = resource(template, "AWS::SageMaker::InferenceComponent")
    assert component["Specification"]["ComputeResourceRequirements"]["NumberOfAcceleratorDevicesRequired"] == 4
    assert resource(template, "AWS::SageMaker::Model")["EnableNetworkIsolation"] is False
    target = resource(template, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert target["ScalableDimension"] == "sagemaker:inference-component:DesiredCopyCount"
    statement, _ = resource(template, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    assert len(statement["Resource"]) == 2, "the endpoint and its component"


def test_eagle_heads_are_trained_by_a_job_and_served_with_the_model() -> None:
    scope = stack()
    endpoint(
        scope,
        model=Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="2.6.0", accept_eula=True),
        techniques=[SpeculativeDecoding.eagle(training_data="s3://prompts/mine/")],
    )
    template = template_of(scope)
    (channel,) = resource(template, "Custom::OptimizedModel")["Channels"]
    assert channel["Name"] == "eagle"
    assert channel["Source"]["Suffix"] == "draft/"
    (role,) = [r for r in resources(template, "AWS::IAM::Role") if r["Description"].endswith("training jobs")]
    assert "prompts/mine/*" in json.dumps(role["Policies"])


def test_a_pre_optimized_model_uses_the_hubs_own_configuration() -> None:
    scope = stack()
    endpoint(scope, techniques=[PreOptimized(config="lmi-optimized")], instance_type="ml.p4d.24xlarge")
    model = resource(template_of(scope), "Custom::OptimizedModel")
    assert model["Source"]["Configuration"] == "lmi-optimized"
    assert "Image" not in model
    assert model["InstanceType"] == "ml.p4d.24xlarge"


def test_a_hubs_configuration_decides_the_variants_options_that_the_user_leaves_out() -> None:
    scope = stack()
    endpoint(scope, techniques=[PreOptimized()], instance_type="ml.g5.48xlarge")
    template = template_of(scope)
    assert "EnableNetworkIsolation" not in resource(template, "Custom::OptimizedModel")
    (name,) = [name for name, each in template["Resources"].items() if each["Type"] == "Custom::OptimizedModel"]
    (variant,) = resource(template, "Custom::OptimizedEndpointConfig")["ProductionVariants"]
    assert variant["InferenceAmiVersion"] == {"Fn::GetAtt": [name, "InferenceAmiVersion"]}
    assert "VolumeSizeInGB" not in variant, "the type has NVMe disks"


def test_the_users_own_options_override_a_hubs_configuration() -> None:
    scope = stack()
    endpoint(
        scope,
        techniques=[PreOptimized()],
        instance_type="ml.g5.48xlarge",
        variant=VariantOptions(inference_ami_version="al2-ami-sagemaker-inference-gpu-2"),
        network=NetworkOptions(isolation=True),
    )
    template = template_of(scope)
    assert resource(template, "Custom::OptimizedModel")["EnableNetworkIsolation"] is True
    (variant,) = resource(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert variant["InferenceAmiVersion"] == "al2-ami-sagemaker-inference-gpu-2"


def test_a_component_of_a_hubs_configuration_states_what_its_instances_are() -> None:
    scope = stack()
    OptimizedEndpoint(
        scope,
        "Shared",
        instance_type="ml.g5.48xlarge",
        variant=VariantOptions(inference_ami_version="al2-ami-sagemaker-inference-gpu-2"),
    ).add_component("Llama", model=llama(), techniques=[PreOptimized()])
    template = template_of(scope)
    host = resource(template, "Custom::OptimizedModel")["Host"]
    assert host == {"EnableNetworkIsolation": True, "InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-2"}
    assert resource(template, "AWS::SageMaker::EndpointConfig")["EnableNetworkIsolation"] is True


def test_a_chain_of_jobs_without_waiting_is_refused() -> None:
    from constructs_optim import OptimizationJob

    with pytest.raises(ValueError, match="chain"):
        OptimizationJob(
            stack(),
            "Job",
            model=llama(),
            techniques=[Quantization.awq(), Sharding.fast_load()],
            instance_type="ml.g5.12xlarge",
            wait=False,
        )


def test_a_job_of_more_than_28_days_is_refused_before_anything_is_declared() -> None:
    scope = stack()
    with pytest.raises(RecipeError, match="28 days"):
        endpoint(scope, jobs=JobOptions(max_runtime=Duration.days(29)))
    assert scope.node.children == []


def test_an_endpoint_has_the_plans_artifacts_and_metrics_of_what_serves() -> None:
    scope = stack()
    pools = [
        Pool("ml.p5.48xlarge", techniques=[Quantization.fp8()]),
        Pool("ml.g5.12xlarge", techniques=[Quantization.awq()]),
    ]
    pooled = endpoint(scope, "Pooled", techniques=None, instance_type=None, instance_pools=pools)
    assert [plan.instance_type for plan in pooled.plans] == ["ml.p5.48xlarge", "ml.g5.12xlarge"]
    assert [each.plan for each in pooled.artifacts] == [*pooled.plans]
    component = endpoint(scope, "Component", inference_component=True)
    assert component.component is not None
    assert component.served == component.component.served
    assert component.served.is_component
    assert not pooled.served.is_component


def test_pools_of_different_servers_are_not_scaled_by_a_metric_of_an_engine() -> None:
    pools = [
        Pool("ml.p5.48xlarge", techniques=[Quantization.fp8()], server=Server.vllm()),
        Pool("ml.g5.12xlarge", techniques=[Quantization.awq()], server=Server.sglang()),
    ]
    pooled = endpoint(stack(), techniques=None, instance_type=None, instance_pools=pools)
    with pytest.raises(RecipeError, match=r"OPT170[\s\S]*the models of the pools have different servers"):
        pooled.auto_scale(max_capacity=2).on_queue(target=2)


def test_an_endpoint_without_a_model_has_none_to_compare_a_shadow_with() -> None:
    shared = OptimizedEndpoint(stack(), "Shared", instance_type="ml.g5.12xlarge")
    with pytest.raises(ValueError, match="Chat/Shared has no model of its own to compare a shadow with"):
        shared.shadow(candidate=ShadowCandidate(), checks=[AnswerCheck.answered()])


def test_techniques_pass_through_the_files_that_contributing_lists() -> None:
    scope, technique, entered = stack(), Quantization.awq(), set[str]()
    root = Path(constructs_optim.__file__).parent

    def holds(value: object) -> bool:
        techniques = getattr(value, "__dict__", {}).get("techniques", value)
        return isinstance(techniques, list | tuple) and any(item is technique for item in techniques)

    @functools.cache
    def is_ours(file: str) -> bool:
        return Path(file).is_relative_to(root)

    def enter(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and is_ours(code.co_filename):
            arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(holds(frame.f_locals.get(name)) for name in arguments):
                entered.add(Path(code.co_filename).relative_to(root).as_posix())

    sys.setprofile(enter)
    try:
        OptimizedEndpoint(scope, "Traced", model=llama(), techniques=[technique], instance_type="ml.g5.12xlarge")
    finally:
        sys.setprofile(None)
    contributing = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = contributing.partition("## How a recipe becomes a template\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\d\. `(.+?)`", section, re.MULTILINE)
    assert len(listed) <= 7
    consulted = ("recipe/rules/", "recipe/hosting/", "recipe/techniques/", "recipe/memory.py", "recipe/parallelism.py")
    assert all(f"`{name}`" in section for name in consulted)
    assert {name for name in entered if not name.startswith(consulted)} == set(listed)

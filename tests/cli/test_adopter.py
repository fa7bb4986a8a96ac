"""What ``constructs-optim adopt`` writes of endpoints in all their forms; each declaration synthesizes."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from aws_cdk.assertions import Template
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.cli.adoption import members
from constructs_optim.cli.adoption.adopter import Adopter, Adoption, AdoptionError

from ..support.sampling import one_in

_REGISTRY = "763104351884.dkr.ecr.us-west-2.amazonaws.com"
_VLLM = f"{_REGISTRY}/vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker"
_PREFIX = "arn:aws:sagemaker:us-west-2:111122223333"
_KEY = "arn:aws:kms:us-west-2:111122223333:key/0a1b2c3d-1111-2222-3333-444455556666"
_COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Pages:
    def __init__(self, page: dict[str, Any]) -> None:
        self.page = page

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [self.page]


class Account:
    """An account with one endpoint, as its services describe it."""

    def __init__(self, container: dict[str, Any], **given: Any) -> None:
        self.container, self.given = container, given

    def describe_endpoint(self, **_: Any) -> dict[str, Any]:
        return {
            "EndpointName": "chat",
            "EndpointArn": f"{_PREFIX}:endpoint/chat",
            "EndpointConfigName": "chat-1",
            "EndpointStatus": "InService",
        }

    def describe_endpoint_config(self, **_: Any) -> dict[str, Any]:
        variant: dict[str, Any] = {
            "VariantName": "Main",
            **({} if self.given.get("components") else {"ModelName": "chat-model"}),
            "InstanceType": "ml.g5.12xlarge",
            "InitialInstanceCount": 2,
            "InferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-4-1",
            "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
            "ContainerStartupHealthCheckTimeoutInSeconds": 1200,
            **self.given.get("variant", {}),
        }
        return {"ProductionVariants": [variant], **self.given.get("configuration", {})}

    def describe_model(self, **_: Any) -> dict[str, Any]:
        return {
            "ModelName": "chat-model",
            "PrimaryContainer": self.container,
            "ExecutionRoleArn": "arn:aws:iam::111122223333:role/chat",
            "EnableNetworkIsolation": True,
            **self.given.get("model", {}),
        }

    def get_paginator(self, operation: str) -> Pages:
        tags = [{"Key": key, "Value": value} for key, value in self.given.get("tags", {}).items()]
        components = [{"InferenceComponentName": name} for name in self.given.get("components", [])]
        listed = {"list_tags": {"Tags": tags}, "list_inference_components": {"InferenceComponents": components}}
        return Pages(listed[operation])

    def describe_inference_component(self, **asked: str) -> dict[str, Any]:
        name = asked["InferenceComponentName"]
        requirements = {"NumberOfAcceleratorDevicesRequired": 1, "MinMemoryRequiredInMb": 1024}
        return {
            "InferenceComponentName": name,
            "InferenceComponentArn": f"{_PREFIX}:inference-component/{name}",
            "InferenceComponentStatus": "InService",
            "Specification": {"ModelName": "chat-model", "ComputeResourceRequirements": requirements},
            "RuntimeConfig": {"DesiredCopyCount": 1},
        }

    def describe_subnets(self, **_: Any) -> dict[str, Any]:
        subnets = [("subnet-1", "us-west-2a"), ("subnet-2", "us-west-2b")]
        return {
            "Subnets": [{"SubnetId": subnet, "VpcId": "vpc-1", "AvailabilityZone": zone} for subnet, zone in subnets]
        }

    def describe_scalable_targets(self, **_: Any) -> dict[str, Any]:
        return {"ScalableTargets": [{"MinCapacity": 1, "MaxCapacity": 3}] if self.given.get("policies") else []}

    def describe_scheduled_actions(self, **_: Any) -> dict[str, Any]:
        return {"ScheduledActions": [{"ScheduledActionName": name} for name in self.given.get("schedules", [])]}

    def describe_scaling_policies(self, **_: Any) -> dict[str, Any]:
        return {"ScalingPolicies": self.given.get("policies", [])}

    def adopted(self, revision: str | None = None) -> Adoption:
        return Adopter(self, self, self, revision=revision).adopt("chat")


def s3(**more: Any) -> dict[str, Any]:
    source = {"S3Uri": "s3://models/chat/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    return {"Image": _VLLM, "ModelDataSource": {"S3DataSource": source}, **more}


def of_a_manifest() -> dict[str, Any]:
    container = s3()
    container["ModelDataSource"]["S3DataSource"]["ManifestS3Uri"] = "s3://models/chat.json"
    return container


def policy(name: str, **configuration: Any) -> dict[str, Any]:
    return {
        "PolicyName": name,
        "PolicyARN": f"arn:aws:autoscaling:us-west-2:111122223333:scalingPolicy:{name}",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "PolicyType": "StepScaling" if "StepScalingPolicyConfiguration" in configuration else "TargetTrackingScaling",
        **configuration,
    }


def template_of(adoption: Adoption, folder: Path) -> dict[str, Any]:
    """The resources of the declaration by their paths; it is a program, formatted as ruff formats it."""
    (folder / "app.py").write_text(adoption.source)
    check = ["ruff", "format", "--check", "--config", str(Path(__file__).parents[2] / "pyproject.toml"), "app.py"]
    assert subprocess.run(check, cwd=folder, check=False, capture_output=True).returncode == 0, adoption.source
    program = adoption.source.replace("App()", 'App(context={"aws:cdk:enable-path-metadata": True})')
    names: dict[str, Any] = {}
    exec(compile(program.replace("app.synth()", ""), "app.py", "exec"), names)
    resources = Template.from_stack(names["stack"]).to_json()["Resources"].values()
    by_path = {each.get("Metadata", {}).get("aws:cdk:path"): each for each in resources}
    assert set(adoption.identifiers) <= set(by_path), "all that is imported is declared"
    return by_path


# SageMaker API reference, CreateInferenceComponent: [a-zA-Z0-9]([\\-a-zA-Z0-9]*[a-zA-Z0-9])?. Names with capitals are
# refused. Application Auto Scaling, PutScalingPolicy: \\p{Print}+.
_COMPONENT_NAMES = st.from_regex(r"[a-z0-9]([\-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
_POLICY_NAMES = st.text(st.characters(min_codepoint=32, exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=30)
# The IDs of constructs that the library declares: a child of an endpoint cannot have one of its others.
_OUR_WORDS = sorted({
    word
    for file in (Path(__file__).parents[2] / "constructs_optim" / "constructs").rglob("*.py")
    for word in re.findall(r'\((?:self|scope|stack|endpoint)[\w.]*, f?"([A-Z][A-Za-z]+)"', file.read_text())
} | {"Default", "Model", "Alarms", "Dashboard", "Evaluation", "Shadow", "Preflight"})  # fmt: skip
_PYTHON_WORDS = [*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "app", "stack", "endpoint", "Duration", "Tags"]
_PYTHON_WORDS += [
    "kms",
    "s3",
    "iam",
    "autoscaling",
    "Model",
    "Size",
    "chat-scaling",
    "chat_scaling",
    "a b",
    "a_b",
    "a-b",
]
_WORDS = sorted({*_OUR_WORDS, *_PYTHON_WORDS})
_AWKWARD = [
    "app",
    "stack",
    "endpoint",
    "class",
    "import",
    "lambda",
    "match",
    "print",
    "kms",
    "s3",
    "7",
    "endpoint-scaling",
]


def _hyphenated(word: str) -> str:
    """Return a component's name: scaling-suspended, whose construct ID is ScalingSuspended."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z])(?=[A-Z])", "-", word).lower()).strip("-")


_COMPONENTS = sorted({_hyphenated(word) for word in _WORDS} - {""})


def declared(components: list[str], policies: list[str]) -> Adoption:
    steps = {"StepScalingPolicyConfiguration": {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": []}}
    return Account(s3(), components=components, policies=[policy(name, **steps) for name in policies]).adopted()


def assigned(source: str) -> list[str]:
    """The variables that a program assigns, in order."""
    nodes = ast.walk(ast.parse(source))
    return [
        target.id
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]


def test_everything_that_an_endpoint_may_have_is_declared(tmp_path: Path) -> None:
    account = Account(
        s3(
            Environment={
                "SM_VLLM_MAX_MODEL_LEN": "4096",
                "HF_TOKEN": "hf_secret",
                "OPENAI_KEY": "mine-1",
                "MY_PWD": "mine-2",
                "HUB": "https://me:mine-3@hub.example",
                "OPTION": "sk-proj-mine4" + "a1B2" * 5,
            }
        ),
        configuration={
            "DataCaptureConfig": {
                "EnableCapture": True,
                "InitialSamplingPercentage": 10,
                "DestinationS3Uri": "s3://captures/chat",
                "CaptureOptions": [{"CaptureMode": "Output"}],
                "KmsKeyId": _KEY,
            },
            "AsyncInferenceConfig": {
                "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 4},
                "OutputConfig": {
                    "S3OutputPath": "s3://responses/chat/",
                    "S3FailurePath": "s3://responses/elsewhere/",
                    "NotificationConfig": {"SuccessTopic": "arn:aws:sns:us-west-2:111122223333:done"},
                },
            },
        },
        model={"VpcConfig": {"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}},
        tags={"team": "chat", "aws:service": "x"},
        policies=[
            policy(
                "by-hand",
                TargetTrackingScalingPolicyConfiguration={
                    "TargetValue": 70.0,
                    "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
                    "DisableScaleIn": True,
                },
            ),
            policy(
                "steps",
                StepScalingPolicyConfiguration={
                    "AdjustmentType": "ChangeInCapacity",
                    "StepAdjustments": [{"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}],
                },
            ),
        ],
    )
    adoption = account.adopted()
    resources = template_of(adoption, tmp_path)
    config = resources["Chat/Endpoint/Config"]["Properties"]
    assert config["DataCaptureConfig"]["KmsKeyId"] == _KEY
    assert config["DataCaptureConfig"]["InitialSamplingPercentage"] == 10
    assert config["DataCaptureConfig"]["CaptureOptions"] == [{"CaptureMode": "Output"}]
    assert config["AsyncInferenceConfig"]["ClientConfig"] == {"MaxConcurrentInvocationsPerInstance": 4}
    (variant,) = config["ProductionVariants"]
    assert (variant["VariantName"], variant["InitialInstanceCount"]) == ("Main", 2)
    assert variant["ContainerStartupHealthCheckTimeoutInSeconds"] == 1200
    model = resources["Chat/Endpoint/OptimizedModel"]["Properties"]
    assert model["VpcConfig"] == {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1", "subnet-2"]}
    assert model["Environment"]["SM_VLLM_MAX_MODEL_LEN"] == "4096"
    assert resources["Chat/Endpoint/Resource"]["Properties"]["Tags"] == [{"Key": "team", "Value": "chat"}]
    tracking = resources["Chat/Endpoint/Scaling/OnInvocations"]["Properties"]
    assert tracking["PolicyName"] == "by-hand"
    assert tracking["TargetTrackingScalingPolicyConfiguration"]["DisableScaleIn"] is True
    assert tracking["TargetTrackingScalingPolicyConfiguration"]["ScaleInCooldown"] == 300
    steps = resources["Chat/StepsPolicy"]["Properties"]
    assert steps["StepScalingPolicyConfiguration"]["StepAdjustments"] == [
        {"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}
    ]
    assert "hf_secret" not in adoption.source
    assert "mine" not in adoption.source
    left_out = [change.partition(" is left out, because a template must not") for change in adoption.changes]
    names = [before.rpartition(" ")[2] for before, found, _ in left_out if found]
    assert names == ["HF_TOKEN", "OPENAI_KEY", "MY_PWD", "HUB", "OPTION"]
    assert any("s3://responses/elsewhere/" in change for change in adoption.changes)


def test_a_model_of_hugging_face_has_its_commit(tmp_path: Path) -> None:
    account = Account({"Image": _VLLM, "Environment": {"SM_VLLM_MODEL": "Qwen/Qwen3-8B"}})
    with pytest.raises(AdoptionError, match="--model-version"):
        account.adopted()
    adoption = account.adopted(_COMMIT)
    assert f'Model.huggingface("Qwen/Qwen3-8B", revision="{_COMMIT}")' in adoption.source
    template_of(adoption, tmp_path)
    assert any("runs the job" in change for change in adoption.changes)


def test_a_model_of_jumpstart_is_known_by_its_tags(tmp_path: Path) -> None:
    tags = {
        "sagemaker-sdk:jumpstart-model-id": "meta-textgeneration-llama-3-8b",
        "sagemaker-sdk:jumpstart-model-version": "2.24.0",
    }
    container = s3(Environment={"SM_VLLM_MAX_MODEL_LEN": "4096"})
    container["ModelDataSource"]["S3DataSource"]["ModelAccessConfig"] = {"AcceptEula": True}
    adoption = Account(container, tags=tags).adopted()
    assert 'Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.24.0", accept_eula=True)' in adoption.source
    template_of(adoption, tmp_path)


def test_an_image_missing_from_the_catalog_is_reported(tmp_path: Path) -> None:
    adoption = Account({**s3(), "Image": f"{_REGISTRY}/vllm:0.1.0-gpu"}).adopted()
    template_of(adoption, tmp_path)
    assert any("0.1.0-gpu becomes" in change for change in adoption.changes)


@pytest.mark.parametrize(
    ("account", "problem"),
    [
        (Account(s3(), variant={"ServerlessConfig": {"MaxConcurrency": 1}}), "serverless"),
        (Account(s3(Mode="MultiModel"), configuration={"ShadowProductionVariants": [{}]}), "multi-model"),
        (Account(s3(), configuration={"ShadowProductionVariants": [{}]}), "shadow variants"),
        (Account(s3(Mode="MultiModel")), "multi-model"),
        (Account({"ModelPackageName": "chat"}), "model package"),
        (Account(s3(), policies=[policy("a")], schedules=["night"]), "scheduled scaling actions (night)"),
        (Account({**s3(), "Image": f"{_REGISTRY}/pytorch-inference:2.3"}), "pytorch-inference"),
        (Account(s3(), variant={"InstanceType": "ml.m5.xlarge"}), "ml.m5.xlarge"),
        (Account(s3(ImageConfig={"RepositoryAccessMode": "Vpc"})), "PrimaryContainer.ImageConfig.RepositoryAccessMode"),
        (
            Account(s3(), model={"EnableNetworkIsolation": False}, configuration={"EnableNetworkIsolation": True}),
            "has EnableNetworkIsolation",
        ),
        (Account(s3(), configuration={"VpcConfig": {"Subnets": ["subnet-1"]}}), "in different VPCs"),
        (
            Account(of_a_manifest()),
            "the model chat-model has PrimaryContainer.ModelDataSource.S3DataSource.ManifestS3Uri",
        ),
    ],
)
def test_settings_that_no_declaration_can_express_are_refused(account: Account, problem: str) -> None:
    with pytest.raises(AdoptionError) as refused:
        account.adopted()
    assert problem in str(refused.value)


def specified(**more: Any) -> Account:
    """An account with a component that has more in its specification."""

    class WithComponent(Account):
        def describe_inference_component(self, **asked: str) -> dict[str, Any]:
            component = super().describe_inference_component(**asked)
            component["RuntimeConfig"]["DesiredCopyCount"] = more.get("copies", 1)
            component["Specification"] |= {name: value for name, value in more.items() if name != "copies"}
            return component

    managed = {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 4}
    managed["ScaleInPolicy"] = {"Strategy": "CONSOLIDATION", "MaximumStepSize": 2}
    return WithComponent(s3(), components=["one"], variant={"ManagedInstanceScaling": managed})


def test_the_timeouts_and_the_scaling_in_of_components_are_declared(tmp_path: Path) -> None:
    timeouts = {"ModelDataDownloadTimeoutInSeconds": 3600, "ContainerStartupHealthCheckTimeoutInSeconds": 1800}
    adoption = specified(StartupParameters=timeouts).adopted()
    component = template_of(adoption, tmp_path)["Chat/Endpoint/One/Component/Resource"]
    assert component["Properties"]["Specification"]["StartupParameters"] == timeouts
    assert 'scale_in=ScaleIn(strategy="CONSOLIDATION", max_step_size=2)' in adoption.source


def test_components_with_different_timeouts_are_refused() -> None:
    class TwoComponents(Account):
        def describe_inference_component(self, **asked: str) -> dict[str, Any]:
            component = super().describe_inference_component(**asked)
            seconds = 600 if asked["InferenceComponentName"] == "one" else 1200
            component["Specification"]["StartupParameters"] = {"ModelDataDownloadTimeoutInSeconds": seconds}
            return component

    with pytest.raises(AdoptionError, match="different StartupParameters"):
        TwoComponents(s3(), components=["one", "two"]).adopted()


def test_a_component_that_is_scaled_to_zero_is_declared_with_a_copy(tmp_path: Path) -> None:
    adoption = specified(copies=0).adopted()
    template_of(adoption, tmp_path)
    assert "copies=1" in adoption.source
    assert "Scaled to zero at the time of adoption" in adoption.source


def test_captures_and_metrics_stay_as_they_are(tmp_path: Path) -> None:
    capture = {
        "EnableCapture": True,
        "InitialSamplingPercentage": 10,
        "DestinationS3Uri": "s3://captures-of-chat/chat",
        "CaptureOptions": [{"CaptureMode": "InputAndOutput"}],
    }
    types = {"JsonContentTypes": ["application/x-ndjson"], "CsvContentTypes": ["text/csv"]}
    header = {"CaptureContentTypeHeader": types}
    metrics = {"EnableEnhancedMetrics": True, "MetricPublishFrequencyInSeconds": 30}
    configuration = {"DataCaptureConfig": {**capture, **header}, "MetricsConfig": metrics}
    container = s3(ImageConfig={"RepositoryAccessMode": "Platform"})
    adoption = Account(container, configuration=configuration).adopted()
    template_of(adoption, tmp_path)
    assert "Captures of text/csv are encoded in base64." in adoption.changes
    assert 'json_content_types=["application/x-ndjson"]' in adoption.source
    assert "Observability(enhanced=True, frequency_seconds=30)" in adoption.source
    assert not any("become text" in change for change in adoption.changes)
    encoded = Account(s3(), configuration={"DataCaptureConfig": capture}).adopted()
    assert any("become text" in change for change in encoded.changes)


_DESCRIPTIONS = {
    "DescribeEndpointConfig": members.CONFIGURATION,
    "DescribeModel": members.MODEL,
    "DescribeInferenceComponent": members.COMPONENT,
}
# In CloudFormation's schemas alone.
_NOT_IN_BOTOCORE = {"AcceleratorPartitionLayouts", "EnableDetailedObservability", "ResponseMetadata"}


def _with_a_value(shape: Any, path: list[str]) -> Any:
    """A description whose member at the path has a value, and nothing else has one."""
    value: Any = "a value"
    for name, of in reversed([*_shapes(shape, path)]):
        value = {name: [value] if of.type_name == "list" else value}
    return value


def _shapes(shape: Any, path: list[str]) -> Iterator[tuple[str, Any]]:
    for name in path:
        shape = shape.members[name]
        yield name, shape
        shape = shape.member if shape.type_name == "list" else shape


def _paths(shape: Any, known: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[list[str], bool]]:
    """Every member of a shape, down to those that are known or not; and whether it is known."""
    for name, member in shape.members.items():
        inner = member.member if member.type_name == "list" else member
        if isinstance(known.get(name), Mapping):
            yield from _paths(inner, known[name], (*before, name))
        else:
            yield [*before, name], name in known and known[name] is None


@pytest.mark.parametrize("operation", _DESCRIPTIONS)
def test_each_member_of_a_description_is_known_or_refuses_the_adoption(operation: str) -> None:
    shape: Any = botocore.session.get_session().get_service_model("sagemaker").operation_model(operation).output_shape
    paths = [*_paths(shape, _DESCRIPTIONS[operation])]
    for path, is_known in paths:
        found = [*members.others(_with_a_value(shape, path), _DESCRIPTIONS[operation])]
        assert found == ([] if is_known else [".".join(path)])
    named = {name for path, _ in paths for name in path}
    assert _names(_DESCRIPTIONS[operation]) - _NOT_IN_BOTOCORE <= named, "members that SageMaker does not have"


def _names(known: Any) -> set[str]:
    return {*known}.union(*(_names(inner) for inner in known.values() if isinstance(inner, Mapping)))


@given(
    st.lists(_COMPONENT_NAMES | st.sampled_from(_COMPONENTS), min_size=1, max_size=5, unique=True),
    st.lists(_POLICY_NAMES | st.sampled_from(_WORDS), max_size=4, unique=True),
)
def test_a_program_has_each_name_once_and_hides_nothing(components: list[str], policies: list[str]) -> None:
    source = declared(components, policies).source
    variables = assigned(source)
    assert len(variables) == len({*variables})
    assert not {*variables} & {*dir(builtins), *keyword.softkwlist}
    imported = [
        alias.asname or alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert not {*variables} & {*imported}
    assert source.count("Tags.of(endpoint)") == 0
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and len(node.args) > 1]
    made = [(ast.unparse(call.func), ast.unparse(call.args[0]), call.args[1]) for call in calls]
    ids = [ast.unparse(named) for _, scope, named in made if scope == "stack"]
    assert len(ids) == len({*ids})


@pytest.mark.parametrize("number", one_in(3, range(3)))
def test_a_program_of_any_names_declares_and_imports_everything(number: int, tmp_path: Path) -> None:
    """Names of the library's own constructs, of Python's, and of nothing but digits and signs."""
    components = [*(_hyphenated(word) for word in _OUR_WORDS[number::3]), *_AWKWARD[number::3], f"{number}-8b"]
    policies = ["a b", "a_b", "1-cpu-high", "\u00fc", "!!!", '"""', "\\", "class", "ArtifactStore"][number::3]
    adoption = declared(components, policies)
    resources = template_of(adoption, tmp_path)
    assert adoption.identifiers.keys() <= resources.keys()
    assert len(adoption.identifiers) == 1 + len(components) * (2 + len(policies))
    names = {found["Properties"].get("InferenceComponentName") for found in resources.values()}
    assert {*components} <= names


def test_tags_are_those_of_the_endpoint_though_a_component_has_its_name(tmp_path: Path) -> None:
    adoption = Account(s3(), components=["endpoint"], tags={"team": "x"}).adopted()
    resources = template_of(adoption, tmp_path)
    assert resources["Chat/Endpoint/Resource"]["Properties"]["Tags"] == [{"Key": "team", "Value": "x"}]


def test_an_image_cannot_leave_its_comment(tmp_path: Path) -> None:
    image = f"{_REGISTRY}/vllm:0.0.1-gpu\nimport os\u2028os.abort()\r"
    source = Account({**s3(), "Image": image}).adopted().source
    assert "\nimport os" not in source
    assert "\\nimport os\\u2028os.abort()\\r" in source
    ast.parse(source)

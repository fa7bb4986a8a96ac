"""A stack as one CloudFormation template, for accounts and tools without the AWS CDK."""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Annotations, App, CfnCondition, CfnOutput, CfnParameter, Fn, IStackSynthesizer, NestedStack, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk.aws_ecr_assets import DockerImageAsset

from constructs_optim import (
    Adapters,
    AsyncInference,
    FineTune,
    Model,
    OptimizedEndpoint,
    Pool,
    PreOptimized,
    Quantization,
    Server,
)
from constructs_optim.constructs.standalone_template.inline_code import inline_source
from constructs_optim.constructs.standalone_template.outputs import OUTPUTS, add_outputs
from constructs_optim.constructs.standalone_template.standalone_template import StandaloneTemplate, standalone_template

from ..support.construct_stacks import ENVIRONMENT, endpoint, resources, template_of
from ..support.deployed_stack import CHECKOUT
from ..support.standalone_templates import of_example, of_stack
from ..support.template_limits import lower
from .oracles import REGIONS, cfn_lint_errors


def functions(made: StandaloneTemplate) -> list[dict[str, Any]]:
    return resources(dict(made.template), "AWS::Lambda::Function")


def tuned(stack: Stack) -> None:
    """An endpoint whose model a training job makes, with code of its own."""
    endpoint(
        stack,
        model=Model.s3("s3://models/mistral/7b"),
        techniques=[FineTune(training_data="s3://prompts/sql/train", method="lora"), Quantization.awq()],
    )


@pytest.fixture(scope="module")
def plain() -> StandaloneTemplate:
    return of_stack(endpoint, code_bucket="my-code")


def test_only_the_code_differs_from_what_the_cdk_writes(plain: StandaloneTemplate) -> None:
    stack = Stack(App(), "Chat")
    endpoint(stack)
    expected, template = template_of(stack), json.loads(plain.body)
    for each in (expected, template):
        del each["Parameters"]
        for resource in each["Resources"].values():
            if resource["Type"] == "AWS::Lambda::Function":
                del resource["Properties"]["Code"]
    del expected["Rules"]
    assert template == expected


def test_parameters_name_the_bucket_and_the_file_with_the_hash_of_its_content(plain: StandaloneTemplate) -> None:
    (file,) = plain.files
    assert file.key == f"constructs-optim/{hashlib.sha256(file.content).hexdigest()}.zip"
    parameters = plain.template["Parameters"]
    assert {name: parameter["Default"] for name, parameter in parameters.items()} == {
        "CodeBucket": "my-code",
        "CodeKey": file.key,
    }
    code = {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "CodeKey"}}
    assert len(functions(plain)) > 3
    assert all(function["Code"] == code for function in functions(plain))


def test_the_code_of_a_stack_with_account_and_region_is_a_parameter_as_well() -> None:
    def declare(app: App, synthesizer: IStackSynthesizer) -> Stack:
        stack = Stack(app, "Chat", env=ENVIRONMENT, synthesizer=synthesizer)
        endpoint(stack)
        return stack

    code = {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "CodeKey"}}
    assert all(function["Code"] == code for function in functions(standalone_template(declare)))
    assert all("ZipFile" in function["Code"] for function in functions(standalone_template(declare, inline=True)))


def test_without_a_bucket_each_deployment_names_one() -> None:
    assert "Default" not in of_stack(endpoint).template["Parameters"]["CodeBucket"]


def test_the_parameters_and_conditions_of_a_stack_are_kept_beside_those_of_the_code() -> None:
    def fill(stack: Stack) -> None:
        CfnParameter(stack, "Stage", default="beta")
        CfnCondition(stack, "IsBeta", expression=Fn.condition_equals(Fn.ref("Stage"), "beta"))
        stack.template_options.description = "Chat of team x"
        referred(s3_assets.Asset(stack, "Own", path=__file__))

    made = of_stack(fill, code_bucket="my-code-${AWS::Region}")
    assert list(made.template["Parameters"]) == ["CodeBucket", "OwnKey", "Stage"]
    assert list(made.template["Conditions"]) == ["CodeBucketIsNamed", "IsBeta"]
    assert made.template["Parameters"]["Stage"] == {"Type": "String", "Default": "beta"}
    written = json.loads(made.body)
    assert written == made.template
    assert written["Description"] == "Chat of team x"


def test_one_template_serves_several_regions() -> None:
    made = of_stack(endpoint, code_bucket="my-code-${AWS::Region}")
    assert made.template["Parameters"]["CodeBucket"]["Default"] == ""
    bucket = functions(made)[0]["Code"]["S3Bucket"]
    named = {"Ref": "CodeBucket"}
    assert bucket == {"Fn::If": ["CodeBucketIsNamed", named, {"Fn::Sub": "my-code-${AWS::Region}"}]}
    assert made.template["Conditions"] == {"CodeBucketIsNamed": {"Fn::Not": [{"Fn::Equals": [named, ""]}]}}


EXAMPLES = ["app.py", "examples/quickstart.py", "examples/evaluation.py", "examples/medusa.py"]


@pytest.mark.lint
@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {"code_bucket": "my-code-${AWS::Region}"}) for name in EXAMPLES), (EXAMPLES[1], {"inline": True})],
)
def test_cfn_lint_finds_nothing_in_an_example(name: str, options: dict[str, Any]) -> None:
    made = of_example(CHECKOUT / name, outputs=True, **options)
    assert cfn_lint_errors(json.loads(made.body), REGIONS) == []


@pytest.mark.parametrize("name", EXAMPLES[-2:])
def test_an_example_has_nothing_of_an_account_a_region_or_the_cdk(name: str) -> None:
    made = of_example(CHECKOUT / name, outputs=True, code_bucket="my-code")
    # Without AWS's own accounts, which differ by region.
    text = json.dumps({name: section for name, section in made.template.items() if name != "Mappings"})
    assert not re.search(r"aws:cdk|cdk-hnb659fds|CDKMetadata|BootstrapVersion|asset\.[0-9a-f]{64}", text)
    assert re.findall(r"(?<![0-9a-f])\d{12}(?![0-9a-f])", text) == []
    assert re.findall(r"\b(?:af|ap|ca|cn|eu|il|me|mx|sa|us)-[a-z-]+-\d\b", text) == []


def test_the_context_of_a_cdk_cli_that_runs_the_program_changes_nothing(
    plain: StandaloneTemplate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = {"aws:cdk:enable-path-metadata": True, "aws:cdk:enable-asset-metadata": True}
    monkeypatch.setenv("CDK_CONTEXT_JSON", json.dumps({**context, "aws:cdk:version-reporting": True}))
    monkeypatch.setenv("CDK_OUTDIR", str(tmp_path))
    assert of_stack(endpoint, code_bucket="my-code") == plain
    assert list(tmp_path.iterdir()) == []


def test_an_archive_has_the_same_bytes_wherever_and_whenever_it_is_made(tmp_path: Path) -> None:
    def packed(*names: str, time: int, mode: int) -> bytes:
        folder = tmp_path / str(time)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
            (folder / name).chmod(mode)
        made = of_stack(lambda stack: referred(s3_assets.Asset(stack, "Own", path=str(folder))))
        (file,) = made.files
        return file.content

    first = packed("b/c.py", "a.py", time=1, mode=0o600)
    assert packed("a.py", "b/c.py", time=2, mode=0o664) == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        entries = [(entry.filename, entry.date_time[0], entry.external_attr >> 16) for entry in archive.infolist()]
    assert entries == [("a.py", 1980, 0o644), ("b/c.py", 1980, 0o644)]


def referred(asset: s3_assets.Asset) -> None:
    CfnOutput(asset, "Url", value=f"s3://{asset.s3_bucket_name}/{asset.s3_object_key}")
    s3.CfnBucket(asset, "Resource")


def test_each_asset_has_a_key_that_is_called_after_it(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text("{}")

    def with_prompts(stack: Stack) -> None:
        tuned(stack)
        referred(s3_assets.Asset(stack, "My-Prompts", path=str(tmp_path / "prompts.jsonl")))

    made = of_stack(with_prompts, code_bucket="my-code")
    keys = {file.parameter: file.key.rpartition(".")[2] for file in made.files}
    assert keys == {"CodeKey": "zip", "TrainingCodeKey": "zip", "MyPromptsKey": "jsonl"}
    assert [file.content for file in made.files if file.parameter == "MyPromptsKey"] == [b"{}"]
    (url,) = [output["Value"] for name, output in made.template["Outputs"].items() if "Url" in name]
    assert url == {"Fn::Join": ["", ["s3://", {"Ref": "CodeBucket"}, "/", {"Ref": "MyPromptsKey"}]]}
    (training,) = {
        json.dumps(channel["DataSource"]["S3DataSource"]["S3Uri"])
        for job in resources(dict(made.template), "Custom::TrainingJob")
        for channel in job["Request"]["InputDataConfig"]
        if channel["ChannelName"] == "code"
    }
    assert json.loads(training) == {"Fn::Join": ["", ["s3://", {"Ref": "CodeBucket"}, "/", {"Ref": "TrainingCodeKey"}]]}


def test_a_function_has_its_own_modules_inline() -> None:
    made = of_stack(endpoint, inline=True)
    assert made.files == ()
    assert "Parameters" not in made.template
    for function in functions(made):
        assert function["Handler"] == "index.handler"
        # Nine functions, in a template of at most 1 MB (CloudFormation user guide, "Understand CloudFormation quotas").
        assert len(function["Code"]["ZipFile"]) < 1_000_000 / 9
        compile(function["Code"]["ZipFile"], "index.py", "exec")


def test_inline_code_runs_with_the_modules_and_data_that_it_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "served").mkdir()
    for name, text in {
        "__init__.py": "",
        "handlers.py": "from .answers import answer\ndef handler(event, context): return answer(event)\n",
        "answers.py": "import pathlib\nto = pathlib.Path(__file__).with_name('t.txt')\n"
        "def answer(event): return to.read_text() + event\n",
        "t.txt": "To ",
        "unused.py": "raise RuntimeError\n",
    }.items():
        (tmp_path / "served" / name).write_text(text)
    source = inline_source(tmp_path, "served.handlers.handler")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    names: dict[str, Any] = {}
    exec(source, names)
    for module in ("served", "served.handlers", "served.answers"):
        monkeypatch.delitem(sys.modules, module)
    assert names["handler"]("you", None) == "To you"
    files = {path.name for path in names["root"].rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert files == {"__init__.py", "handlers.py", "answers.py", "t.txt"}


def test_a_body_has_a_line_for_each_resource(plain: StandaloneTemplate) -> None:
    assert json.loads(plain.body) == plain.template
    lines = plain.body.splitlines()
    sections = 2 * len(plain.template)
    assert len(lines) == 2 + sections + sum(len(section) for section in plain.template.values())


def test_warnings_are_returned_and_errors_raised() -> None:
    def warned(stack: Stack) -> None:
        referred(s3_assets.Asset(stack, "Own", path=__file__))
        Annotations.of(stack).add_warning("look at this")

    assert of_stack(warned).warnings == ("look at this",)
    with pytest.raises(RuntimeError, match=r"^this cannot work$"):
        of_stack(lambda stack: (warned(stack), Annotations.of(stack).add_error("this cannot work")))


def nested(stack: Stack) -> None:
    s3.CfnBucket(NestedStack(stack, "Inner"), "Bucket")


def with_an_image(stack: Stack) -> None:
    s3.CfnBucket(stack, "Bucket")
    (folder := Path(stack.node.root.outdir) / "image").mkdir()  # type: ignore[attr-defined]
    (folder / "Dockerfile").write_text("FROM scratch")
    CfnOutput(stack, "Uri", value=DockerImageAsset(stack, "Image", directory=str(folder)).image_uri)


def with_a_parameter(stack: Stack) -> None:
    CfnParameter(stack, "CodeBucket")
    endpoint(stack)


def with_a_url(stack: Stack) -> None:
    s3.CfnBucket(stack, "Bucket")
    CfnOutput(stack, "Url", value=s3_assets.Asset(stack, "Own", path=__file__).s3_object_url)


@pytest.mark.parametrize(
    ("fill", "options", "problem"),
    [
        (lambda _: None, {}, r"^the stack has no resources, .* without resources: declare some$"),
        (nested, {}, r"^Inner\w+ is a nested stack .* declare its resources in the stack$"),
        (with_an_image, {}, r"^Image: only the CDK CLI builds and pushes images; push them beforehand"),
        (with_a_parameter, {}, r"^the stack has the parameter CodeBucket, .* rename it$"),
        (tuned, {"inline": True}, r"^TrainingCode cannot be in the template, .* pass a bucket for the code$"),
        (with_a_url, {}, r"^the stack contains the URL of an asset, .* from s3_bucket_name and s3_object_key$"),
        (endpoint, {"code_bucket": "s3://my-code"}, r"^the code bucket is 's3://my-code', and a bucket name has"),
        (endpoint, {"code_bucket": "my-${AWS::AccountId}"}, r"^the code bucket is 'my-\$\{AWS::AccountId\}'"),
    ],
)
def test_what_no_template_can_express_is_refused(fill: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        of_stack(fill, **options)


@pytest.mark.parametrize(("inline", "cure"), [(True, "leave inline out"), (False, "declare some of the stack's")])
def test_a_template_that_cloudformation_does_not_take_is_refused(
    monkeypatch: pytest.MonkeyPatch, inline: bool, cure: str
) -> None:
    lower(monkeypatch, "template bytes", 50_000)
    with pytest.raises(ValueError, match=rf"has [\d,]+ bytes, and CloudFormation allows 50,000: {cure}"):
        of_stack(endpoint, inline=inline)


def test_the_parameters_of_a_template_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(of_stack(endpoint).template["Parameters"]) == 2
    lower(monkeypatch, "parameters", 1)
    with pytest.raises(ValueError, match="the template has 2 parameters, and CloudFormation allows 1: "):
        of_stack(endpoint)


def test_a_limit_that_aws_raises_on_request_refuses_no_template(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, "trust policy", 10)
    assert of_stack(endpoint).files


def test_more_outputs_than_cloudformation_allows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, "outputs", 16)

    def fill(stack: Stack, number: int) -> None:
        for name in ("Chat", "Code", "Mail")[:number]:
            add_outputs(name, endpoint(stack, name))

    of_stack(lambda stack: fill(stack, 1))
    refused = r"^the template has 2\d outputs, and CloudFormation allows 16: declare .* about 1 of its 3 fit into one$"
    with pytest.raises(ValueError, match=refused):
        of_stack(lambda stack: fill(stack, 3))


def outputs(name: str, declare: Any) -> dict[str, Any]:
    def fill(stack: Stack) -> None:
        add_outputs(name, declare(stack))

    found: dict[str, Any] = of_stack(fill).template["Outputs"]
    return {key.removeprefix(name): output["Value"] for key, output in found.items() if key.startswith(name)}


def test_an_endpoint_has_outputs_by_names_that_do_not_change() -> None:
    assert set(outputs("Chat", endpoint)) == OUTPUTS.keys() - {"InferenceComponentName", "InferenceComponentArn"}


def test_a_list_in_an_output_has_commas() -> None:
    separator, names = outputs("Chat", endpoint)["AlarmNames"]["Fn::Join"]
    assert separator == ","
    assert {*map(len, names)} == {1}
    assert len(names) > 2


def test_the_policy_of_an_output_allows_what_a_grant_does() -> None:
    def granted(stack: Stack) -> None:
        chat = endpoint(stack, inference_component=True)
        chat.grant_invoke(iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal()))
        add_outputs("Chat", chat)

    template: Any = of_stack(granted).template
    (policy,) = resources(template, "AWS::IAM::Policy")
    _, parts = template["Outputs"]["ChatInvokePolicy"]["Value"]["Fn::Join"]
    written = "".join(part if isinstance(part, str) else json.dumps(part).replace('"', "'") for part in parts)
    allowed = json.loads(written)["Statement"]
    assert [each["Sid"] for each in allowed] == ["Invoke", "CallWithBearerTokens"]
    arns = [json.loads(arn.replace("'", '"')) for arn in allowed[0]["Resource"]]
    assert policy["PolicyDocument"]["Statement"] == [
        {"Effect": "Allow", "Action": allowed[0]["Action"], "Resource": arns},
        {"Effect": "Allow", "Action": allowed[1]["Action"][0], "Resource": "*"},
    ]


def test_a_component_has_its_own_outputs() -> None:
    def component(stack: Stack) -> Any:
        shared = OptimizedEndpoint(stack, "Shared", instance_type="ml.g5.12xlarge")
        add_outputs("Shared", shared)
        return shared.add_component("Chat", model=Model.s3("s3://models/chat/"), techniques=[Quantization.awq()])

    found = outputs("Shared", component)
    assert set(found) == {*OUTPUTS}


def test_an_adapter_is_invoked_by_its_name() -> None:
    def adapter(stack: Stack) -> Any:
        server = Server.vllm(adapters=Adapters())
        component = endpoint(stack, server=server, inference_component=True).component
        assert component is not None
        return component.add_adapter("Sql", artifact_uri="s3://adapters/sql.tar.gz")

    assert set(outputs("Sql", adapter)) == {"InferenceComponentName", "InferenceComponentArn", "InvokePolicy"}


def test_an_asynchronous_endpoint_has_no_url_for_openais_clients() -> None:
    def queued(stack: Stack) -> Any:
        bucket = s3.Bucket.from_bucket_name(stack, "Answers", "answers-of-mine")
        return endpoint(stack, async_inference=AsyncInference(bucket=bucket))

    found = outputs("Queue", queued)
    assert "OpenAiBaseUrl" not in found
    assert "InvokeEndpointAsync" in json.dumps(found["InvokePolicy"])


def test_pools_have_a_key_each_and_ready_made_artifacts_none() -> None:
    pools = [
        Pool("ml.p5.48xlarge", techniques=[Quantization.fp8()]),
        Pool("ml.g5.12xlarge", techniques=[Quantization.awq()]),
    ]
    made = outputs("Chat", lambda stack: endpoint(stack, techniques=None, instance_type=None, instance_pools=pools))
    assert re.fullmatch("[0-9a-f]{64},[0-9a-f]{64}", made["ArtifactKeys"])
    found = outputs("Chat", lambda stack: endpoint(stack, techniques=[PreOptimized()], instance_type="ml.p4d.24xlarge"))
    assert not {"ArtifactKeys", "ArtifactStoreBucket"} & set(found)

"""``constructs-optim synth``, ``deploy`` and ``schema``, and what other commands read of a file."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.constructs.declaration.document import Document
from constructs_optim.constructs.declared_stack import stack_file
from constructs_optim.constructs.declared_stack.stack_file import declared_template
from constructs_optim.constructs.standalone_template import standalone_template
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock
from constructs_optim_local.cloud import LocalCloud

from ..declaration.test_document import VALID
from ..support.sampling import one_in
from ..support.template_limits import lower

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICKSTART = str(EXAMPLES / "quickstart.yaml")
REGIONS = ("us-west-2", "eu-west-1")


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=text)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and no CDK CLI around the command."""
    for name in ("CDK_OUTDIR", "CDK_DEFAULT_ACCOUNT", "CDK_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("region", "variable", "options", "said"),
    [
        ("us-wst-2", None, (), "OPT014 own.yaml:{line} region = us-wst-2"),
        (None, None, ("--region", "us-wst-2"), "OPT014 --region region = us-wst-2"),
        (None, None, ("--region", "uswest2"), "--region region = uswest2"),
        (None, "us-wst-2", (), "OPT014 CDK_DEFAULT_REGION region = us-wst-2"),
        (None, "mars", (), "CDK_DEFAULT_REGION region = mars"),
        (None, "mars", ("--region", "us-wst-2"), "OPT014 --region region = us-wst-2"),
    ],
)
def test_a_region_that_does_not_exist_is_refused_where_it_was_given(
    region: str | None, variable: str | None, options: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(QUICKSTART).read_text()
    line = len(text.splitlines()) + 1
    Path("own.yaml").write_text(f"{text}region: {region}\n" if region is not None else text)
    if variable is not None:
        monkeypatch.setenv("CDK_DEFAULT_REGION", variable)
    result = run("synth", "own.yaml", *options)
    assert result.exit_code == 2, result.output
    assert said.format(line=f"{line}:9") in result.stderr
    assert "1 error" in result.stderr


def test_a_region_of_the_environment_that_does_not_exist_is_refused_for_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-wst-2")
    result = run("plan", QUICKSTART)
    said = " ".join(result.stderr.split())
    assert (result.exit_code, "AWS_REGION, AWS_DEFAULT_REGION, or the profile is us-wst-2" in said) == (2, True), said
    Path("own.yaml").write_text(f"{Path(QUICKSTART).read_text()}region: eu-west-1\n")
    assert ".eu-west-1." in run("plan", "own.yaml").stdout


def test_an_assembly_is_written_to_cdk_out_and_to_the_folder_that_the_cdk_cli_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("synth", QUICKSTART).exit_code == 0
    assert {"manifest.json", "Quickstart.template.json"} <= files_in(folder / "cdk.out")
    monkeypatch.setenv("CDK_OUTDIR", str(folder / "of_cli"))
    assert run("synth", QUICKSTART).exit_code == 0
    assert files_in(folder / "of_cli") == files_in(folder / "cdk.out")


@pytest.mark.parametrize("format", ["cdk", "cloudformation"])
def test_advice_is_printed_once_wherever_a_file_is_synthesized(
    folder: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    (folder / "endpoint.yaml").write_text(Path(QUICKSTART).read_text().replace("ml.g5.12xlarge", "ml.g6e.12xlarge"))
    result = run("synth", "endpoint.yaml", "--format", format)
    assert result.exit_code == 0, result.output
    assert result.stderr.count("Warning: instance_type = 'ml.g6e.12xlarge'") == 1
    if format == "cloudformation":
        answered = json.loads(run("synth", "endpoint.yaml", "--format", format, "--json").stdout)
        assert answered["warnings"].startswith("instance_type = 'ml.g6e.12xlarge'")
    monkeypatch.setenv("CDK_OUTDIR", str(folder / "of_cli"))
    if format == "cdk":
        assert "arning" not in run("synth", "endpoint.yaml").output, "the CDK CLI prints the warnings itself"


@pytest.mark.parametrize("command", [("explain",), ("synth", "--format", "cloudformation")], ids=lambda each: each[0])
@pytest.mark.parametrize("severity", ["warning", "error"])
def test_findings_of_a_policy_name_no_report_in_a_temporary_folder(
    folder: Path, command: tuple[str, ...], severity: str
) -> None:
    policy = f"policy: {{allowed_instance_types: [ml.g6.xlarge], severities: {{POL001: {severity}}}}}\n"
    (folder / "endpoint.yaml").write_text(VALID + policy)
    result = run(*command, "endpoint.yaml")
    assert result.exit_code == (0 if severity == "warning" else 2)
    assert "does not allow this instance type. What works: one of ml.g6.xlarge" in " ".join(result.stderr.split())
    assert "constructs-optim-policy::POL001" in result.stderr
    assert "validation-report" not in result.stderr


@pytest.mark.parametrize("command", [("explain",), ("synth", "--format", "cloudformation"), ("synth",)])
@pytest.mark.parametrize("severity", one_in(2, ["warning", "error"]))
def test_findings_of_a_policy_use_the_file_s_words_and_keep_its_values(
    folder: Path, command: tuple[str, ...], severity: str
) -> None:
    policy = f"policy: {{forbidden_techniques: [quantization=awq], severities: {{POL011: {severity}}}}}\n"
    (folder / "endpoint.yaml").write_text(VALID + policy)
    result = run(*command, "endpoint.yaml")
    printed = " ".join(result.stderr.split())
    if command == ("synth",) and severity == "warning":
        printed = (folder / "cdk.out" / "validation-report.json").read_text()
    assert "Techniques is 'quantization=awq'" in printed
    assert "techniques: [...] without quantization=awq" in printed


@pytest.mark.parametrize("format", ["cdk", "cloudformation"])
def test_a_template_that_exceeds_a_limit_is_refused_and_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    lower(monkeypatch, "outputs" if format == "cloudformation" else "resources", 5)
    validated: list[bool] = []

    def recorded(**options: Any) -> App:
        validated.append(options["builtin_cloud_formation_validation"])
        return App(**options)

    for module in (stack_file, standalone_template):
        monkeypatch.setattr(module, "App", recorded)
    result = run("synth", QUICKSTART, "--format", format)
    # The CDK prints the path of a report, which is to be there after the command.
    assert validated == [format == "cdk"]
    assert result.exit_code == 2
    assert re.search(r"the template has \d+ (outputs|resources), and CloudFormation allows 5: \w+", result.stderr)
    assert not (folder / "cloudformation.out").exists()


@pytest.mark.parametrize("format", ["cdk", "cloudformation"])
def test_containers_are_recorded_in_the_folder_of_the_command(folder: Path, format: str) -> None:
    run("explain", QUICKSTART)
    assert not (folder / LOCK_FILE).exists()
    result = run("synth", QUICKSTART, "--format", format)
    assert f"{LOCK_FILE} records jobs.awq: " in result.stderr
    recorded = Lock.read(folder / LOCK_FILE)
    assert recorded.jobs.keys() == recorded.servers.keys() == {"awq"}


def test_a_query_has_no_lines(folder: Path) -> None:
    query = json.dumps({"query": json.dumps({"stack": "Chat", "endpoint": {}})})
    assert "OPT090 standard input endpoint = {}" in run("synth", "-", "--format", "cloudformation", text=query).stderr


@pytest.mark.parametrize("declared", ["region: us-west-2\n", 'account: "111122223333"\nregion: us-west-2\n'])
@pytest.mark.parametrize("bucket", one_in(2, [[], ["--code-bucket", "inline"]]))
def test_a_template_of_a_known_region_takes_its_code_from_where_its_parameters_say(
    folder: Path, declared: str, bucket: list[str]
) -> None:
    text = declared + Path(QUICKSTART).read_text()
    result = run("synth", "-", "--format", "cloudformation", *bucket, text=text)
    assert result.exit_code == 0, result.output
    template = json.loads((folder / "cloudformation.out" / "Quickstart.template.json").read_text())
    functions = [each for each in template["Resources"].values() if each["Type"] == "AWS::Lambda::Function"]
    code = [each["Properties"]["Code"] for each in functions]
    from_parameters = {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "CodeKey"}}
    assert all(set(each) == {"ZipFile"} if bucket else each == from_parameters for each in code)


def test_a_region_is_that_of_the_file_or_of_the_option(folder: Path) -> None:
    (folder / "endpoint.yaml").write_text("region: us-west-2\n" + Path(QUICKSTART).read_text())
    assert run("synth", "endpoint.yaml", "--region", "us-west-2").exit_code == 0
    result = run("synth", "endpoint.yaml", "--region", "eu-west-1")
    assert result.exit_code == 2
    assert "declares region us-west-2, and --region is eu-west-1" in " ".join(result.stderr.replace("│", " ").split())
    assert run("synth", QUICKSTART, "--region", "eu-west-1").exit_code == 0
    assert "aws://unknown-account/eu-west-1" in (folder / "cdk.out" / "manifest.json").read_text()


def test_an_account_is_that_of_the_file_or_of_the_option(folder: Path) -> None:
    (folder / "endpoint.yaml").write_text('account: "111122223333"\n' + Path(QUICKSTART).read_text())
    result = run("synth", "endpoint.yaml", "--format", "cloudformation", "--account", "444455556666")
    assert result.exit_code == 2
    assert "declares account 111122223333, and --account is 444455556666" in " ".join(
        result.stderr.replace("│", " ").split()
    )
    assert run("synth", QUICKSTART, "--account", "444455556666", "--region", "eu-west-1").exit_code == 0
    assert "aws://444455556666/eu-west-1" in (folder / "cdk.out" / "manifest.json").read_text()


@pytest.mark.parametrize("format", ["cdk", "cloudformation"])
def test_one_file_is_several_stacks_with_names_and_tags_of_their_own(folder: Path, format: str) -> None:
    names = set[str]()
    for stage in ("Dev", "Prod"):
        options = ("--format", format, "--stack-name", f"Chat-{stage}", "--tag", f"stage={stage}", "--output", stage)
        result = run("synth", QUICKSTART, *options)
        assert result.exit_code == 0, result.output
        template = json.loads((folder / stage / f"Chat-{stage}.template.json").read_text())
        (endpoint,) = (
            each["Properties"] for each in template["Resources"].values() if each["Type"] == "AWS::SageMaker::Endpoint"
        )
        assert {"Key": "stage", "Value": stage} in endpoint["Tags"]
        names.add(endpoint["EndpointName"])
    assert len(names) == 2


@pytest.mark.parametrize("format", ["cdk", "cloudformation"])
def test_an_impossible_output_folder_is_refused(folder: Path, format: str) -> None:
    (folder / "taken").write_text("")
    result = run("synth", QUICKSTART, "--format", format, "--output", "taken")
    assert (result.exit_code, "Cannot write to taken" in result.stderr) == (2, True)
    assert files_in(folder) == {"taken"}


def test_a_template_cannot_replace_a_folder(folder: Path) -> None:
    (folder / "cloudformation.out" / "Quickstart.template.json").mkdir(parents=True)
    result = run("synth", QUICKSTART, "--format", "cloudformation")
    assert (result.exit_code, "it is a folder" in result.stderr) == (2, True)
    assert [path.name for path in (folder / "cloudformation.out").iterdir()] == ["Quickstart.template.json"]
    assert not (folder / LOCK_FILE).exists()


def test_a_template_is_for_any_number_of_stacks_or_for_a_named_one(folder: Path) -> None:
    def endpoint(*options: str) -> Any:
        result = run("synth", QUICKSTART, "--format", "cloudformation", "--json", *options)
        resources = json.loads(json.loads(result.stdout)["body"])["Resources"].values()
        (found,) = [each for each in resources if each["Type"] == "AWS::SageMaker::Endpoint"]
        return found["Properties"]["EndpointName"]

    of_stack = {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
    assert endpoint() == {"Fn::Join": ["", ["llama70b-5ad6b1b6-", of_stack]]}
    assert endpoint("--stack-name", "Chat-prod") == "chat-prod-llama70b-730b7c99"


def test_names_in_a_template_for_any_stack_do_not_depend_on_unrelated_endpoints() -> None:
    """The name of a component in a partition contains a hash of the endpoint's name, which contains a token."""
    endpoint = """
  {}:
    instance_type: ml.p5.4xlarge
    variant: {{accelerator_partitions: [mig-3g.40gb, mig-3g.40gb]}}
    components: {{Small: {{model: {{s3: {{uri: s3://models-of-mine/small/}}}}}}}}
"""

    def name(*ids: str) -> Any:
        text = "stack: Chat\nendpoints:" + "".join(endpoint.format(each) for each in ids)
        _, made = declared_template(Document.parsed(text, "file"), code_bucket=None, inline=False, reusable=True)
        return made.template["Outputs"]["SlicesSmallInferenceComponentName"]

    assert name("Slices") == name("Others", "Slices")


def test_a_stack_without_resources_is_no_template(folder: Path) -> None:
    result = run("synth", "-", "--format", "cloudformation", text="stack: Chat\n")
    assert (result.exit_code, "the stack has no resources" in result.stderr) == (2, True)


def test_a_file_is_read_from_standard_input_and_from_the_query_of_a_data_source(folder: Path) -> None:
    as_yaml = Path(QUICKSTART).read_text()
    query = json.dumps({"query": as_yaml})
    written = {}
    for name, text in (("yaml", as_yaml), ("query", query)):
        result = run("synth", "-", "--format", "cloudformation", "--output", name, "--json", text=text)
        assert result.exit_code == 0, result.output
        made = json.loads(result.stdout)
        assert made.pop("body") == (folder / name / "Quickstart.template.json").read_text()
        assert made.pop("warnings") == ""
        assert made.pop("explanation").splitlines()[0] == "Quickstart/Llama70B"
        assert made.pop("version") == version("constructs-optim")
        assert {key: Path(path).parent.name for key, path in made.items()} == {"template": name, "CodeKey": name}
        written[name] = {path.name: path.read_bytes() for path in (folder / name).iterdir()}
    assert written["yaml"] == written["query"]


def test_the_explanation_of_a_template_is_that_of_a_first_deployment(folder: Path) -> None:
    made = json.loads(run("synth", QUICKSTART, "--format", "cloudformation", "--json").stdout)
    lines = made["explanation"].splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "Quickstart/Llama70B", "  recipe", "  artifact", "  capacity", "Permissions of Quickstart"
    ]  # fmt: skip
    explained = run("explain", QUICKSTART).stdout
    assert " ".join(lines[1].split()) in " ".join(explained.split())
    assert lines[3].strip() in explained


@pytest.mark.parametrize("arguments", [("synth", "-"), ("plan", "-"), ("synth", "-", "--format", "cloudformation")])
def test_what_is_wrong_ends_with_status_2_and_writes_nothing(folder: Path, arguments: tuple[str, ...]) -> None:
    result = run(*arguments, text=VALID.replace("ml.g5.12xlarge", "ml.g5.12xlarg"))
    assert result.exit_code == 2
    assert "OPT010 standard input:8:20 endpoints.Llama.instance_type = ml.g5.12xlarg\n" in result.stderr
    assert "did you mean ml.g5.12xlarge" in result.stderr
    assert files_in(folder) == set()


@pytest.mark.parametrize("format", ["cdk", "cloudformation"])
def test_a_refused_file_records_no_containers_under_the_cdk_cli_either(
    folder: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setenv("CDK_OUTDIR", str(folder / "of_cli"))
    second = VALID.split("endpoints:\n")[1].replace("Llama", "Other").replace("ml.g5.12xlarge", "ml.g6.xlarg")
    assert run("synth", "-", "--format", format, text=VALID + second).exit_code == 2
    assert not (folder / LOCK_FILE).exists()


@pytest.mark.parametrize("under_cli", [False, True])
def test_what_a_lock_file_that_cannot_be_written_would_record_is_in_the_warnings(
    folder: Path, monkeypatch: pytest.MonkeyPatch, under_cli: bool
) -> None:
    def write(lock: Lock, path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Lock, "write", write)
    if under_cli:
        monkeypatch.setenv("CDK_OUTDIR", str(folder / "of_cli"))
    second = VALID.split("endpoints:\n")[1].replace("Llama", "Other").replace("llama-3-8b", "llama-3-70b")
    template = run("synth", "-", "--format", "cloudformation", "--json", text=VALID + second)
    assembly = run("synth", "-", text=VALID + second)
    for text in (json.loads(template.stdout)["warnings"], assembly.stderr):
        (line,) = [line for line in text.splitlines() if f"{LOCK_FILE} cannot be written (Permission denied)" in line]
        assert {"llama-3-8b", "llama-3-70b"} <= set(re.findall(r"llama-3-\d+b", line))


@pytest.mark.parametrize("command", [("synth",), ("plan",), ("synth", "--format", "cloudformation")])
def test_a_malformed_lock_file_is_refused_without_a_traceback(folder: Path, command: tuple[str, ...]) -> None:
    (folder / LOCK_FILE).write_text('{"servers": 3')
    result = run(*command, QUICKSTART)
    assert (result.exit_code, isinstance(result.exception, SystemExit)) == (2, True)
    assert f"{LOCK_FILE} is not a lock file of this release" in result.stderr
    assert "restore it from version control, or delete it" in result.stderr


def test_the_template_is_written_after_its_code_and_before_the_record(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: list[str] = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda path, target: replaced.append(target.name) or replace(path, target))
    assert run("synth", QUICKSTART, "--format", "cloudformation").exit_code == 0
    code, *others = replaced
    assert (Path(code).suffix, others) == (".zip", ["Quickstart.template.json", LOCK_FILE])


@pytest.mark.parametrize("command", [("synth",), ("synth", "--format", "cloudformation"), ("explain",)])
def test_what_a_policy_refuses_is_refused_without_a_traceback(folder: Path, command: tuple[str, ...]) -> None:
    governed = (EXAMPLES / "policy.yaml").read_text().replace("[ml.g5.*, ml.p5.48xlarge]", "[ml.p5.48xlarge]")
    (folder / "endpoint.yaml").write_text(governed)
    result = run(command[0], "endpoint.yaml", *command[1:])
    assert result.exit_code == 2
    assert "constructs-optim-policy::POL001" in result.stderr
    assert "Traceback" not in result.output
    assert not any(line.lstrip().startswith("at ") for line in result.stderr.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--code-bucket", "code"), "--code-bucket and --profile need --format cloudformation"),
        (("--tag", "stage"), "--tag 'stage': use KEY=VALUE"),
        (("--stack-name", "my_chat"), "stack = my_chat"),
        (("--format", "cloudformation", "--code-bucket", "Not_A_Bucket"), "'Not_A_Bucket'"),
    ],
)
def test_options_that_cannot_work_are_refused(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run("synth", QUICKSTART, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert files_in(folder) == set()


def test_a_template_with_its_code_needs_no_file(folder: Path) -> None:
    result = run("synth", QUICKSTART, "--format", "cloudformation", "--output", "out", "--code-bucket", "inline")
    assert result.exit_code == 0, result.output
    assert files_in(folder / "out") == {"Quickstart.template.json"}
    template = json.loads((folder / "out" / "Quickstart.template.json").read_text())
    assert "Parameters" not in template
    assert "Llama70BEndpointName" in template["Outputs"]


class TestUpload:
    pytestmark = pytest.mark.local

    @pytest.fixture(scope="class")
    def cloud(self) -> Iterator[LocalCloud]:
        with LocalCloud(job_seconds=(0.2, 0.2), endpoint_seconds=0.2) as running:
            for region in REGIONS:
                location: Any = {"LocationConstraint": region}
                s3 = running.client("s3", region_name=region)
                s3.create_bucket(Bucket=f"code-{region}", CreateBucketConfiguration=location)
            yield running

    @pytest.fixture(autouse=True)
    def credentials(self, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)

    @pytest.mark.parametrize("bucket", ["code-us-west-2", "code-${AWS::Region}"])
    def test_the_code_is_in_the_bucket_before_the_template_is_written(
        self, cloud: LocalCloud, folder: Path, bucket: str
    ) -> None:
        result = run(
            "synth", QUICKSTART, "--format", "cloudformation", "--code-bucket", bucket, "--region", "us-west-2"
        )
        assert result.exit_code == 0, result.output
        template = json.loads((folder / "cloudformation.out" / "Quickstart.template.json").read_text())
        key = template["Parameters"]["CodeKey"]["Default"]
        stored = cloud.client("s3").get_object(Bucket="code-us-west-2", Key=key)["Body"].read()
        assert stored == (folder / "cloudformation.out" / Path(key).name).read_bytes()

    def test_nothing_is_uploaded_for_a_template_that_cannot_be_written(self, cloud: LocalCloud, folder: Path) -> None:
        (folder / "taken").write_text("")
        s3 = cloud.client("s3", region_name="us-west-2")
        s3.create_bucket(Bucket="code-unused", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        options = ("--code-bucket", "code-unused", "--region", "us-west-2", "--output", "taken")
        assert run("synth", QUICKSTART, "--format", "cloudformation", *options).exit_code == 2
        assert "Contents" not in s3.list_objects_v2(Bucket="code-unused")

    @pytest.mark.parametrize(
        ("bucket", "region", "message"),
        [
            ("code-eu-west-1", "us-west-2", "the code bucket code-eu-west-1 is in eu-west-1"),
            ("code-of-nobody", "us-west-2", "the code bucket code-of-nobody does not exist"),
        ],
    )
    def test_a_bucket_of_another_region_or_none_stops_everything(
        self, cloud: LocalCloud, folder: Path, bucket: str, region: str, message: str
    ) -> None:
        result = run("synth", QUICKSTART, "--format", "cloudformation", "--code-bucket", bucket, "--region", region)
        assert result.exit_code == 2
        assert message in result.stderr
        assert files_in(folder) == set()
        assert "Contents" not in cloud.client("s3", region_name="eu-west-1").list_objects_v2(Bucket="code-eu-west-1")


def test_deploy_needs_a_file_that_is_there_and_the_cdk_cli(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "deploy needs a file" in run("deploy", "-").stderr
    missing = run("deploy", "endpoint.yaml")
    assert (missing.exit_code, "No such file" in missing.stderr) == (2, True)
    monkeypatch.setattr("constructs_optim.cli.deploy.sys.executable", str(folder / "python"))
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("cdk", "npx") else which(name))
    without = run("deploy", QUICKSTART)
    assert without.exit_code == 2
    assert "The CDK CLI is not installed. Run `npm install aws-cdk@2`" in without.stderr


@pytest.mark.exhaustive
def test_deploy_has_the_cdk_cli_synthesize_the_file(folder: Path) -> None:
    """The CDK CLI is stood in for by a script that says how it is called."""
    cdk = folder / "node_modules" / ".bin" / "cdk"
    cdk.parent.mkdir(parents=True)
    cdk.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/called\nexit 3\n')
    cdk.chmod(0o755)
    result = run("deploy", QUICKSTART, "--", "--require-approval", "never")
    assert result.exit_code == 3
    assert "cdk bootstrap aws://ACCOUNT/REGION" in result.stderr, "the CDK CLI's own advice needs an app"
    deploy, app_option, command, *rest = (folder / "called").read_text().splitlines()
    assert (deploy, app_option, rest) == ("deploy", "--app", ["--require-approval", "never"])
    assert command.endswith(f"-m constructs_optim synth {QUICKSTART}")
    assert os.system(f"CDK_OUTDIR={folder}/out {command} > /dev/null") == 0
    assert "Quickstart.template.json" in files_in(folder / "out")


def test_the_schema_is_that_of_the_documentation() -> None:
    published = EXAMPLES.parent / "docs" / "endpoint.schema.json"
    assert run("schema").stdout == published.read_text()


# Commands that take a file in place of their options.


def test_a_plan_of_a_file_has_each_endpoint_and_pool() -> None:
    result = run("plan", str(EXAMPLES / "production.yaml"), "--json")
    assert result.exit_code == 0, result.output
    plans = json.loads(result.stdout)
    assert {name: list(of_one) for name, of_one in plans.items()} == {
        "Chat": ["ml.p5.48xlarge", "ml.g5.12xlarge"],
        "Shared/Assistant": ["ml.g5.12xlarge"],
        "Shared/NightShift": ["ml.g5.12xlarge"],
    }
    table = run("plan", str(EXAMPLES / "production.yaml")).stdout
    assert "Chat on ml.p5.48xlarge" in table
    assert "Token" not in table


def test_a_plan_is_of_a_file_or_of_options() -> None:
    both = run("plan", QUICKSTART, "--instance-type", "ml.g5.12xlarge")
    neither = run("plan", "--model", "meta-textgeneration-llama-3-8b")
    assert (both.exit_code, neither.exit_code) == (2, 2)
    assert "leave out the recipe options" in " ".join(both.stderr.replace("│", " ").split())
    assert "--instance-type and --model" in " ".join(neither.stderr.replace("│", " ").split())


def test_a_file_is_explained_against_another(folder: Path) -> None:
    before = folder / "before.yaml"
    before.write_text(Path(QUICKSTART).read_text().replace("max_capacity: 4", "max_capacity: 2"))
    report = run("explain", QUICKSTART, "--against", str(before)).stdout
    assert "1 to 2" in report
    assert "1 to 4" in report
    assert run("explain", QUICKSTART, "--against", QUICKSTART, "--fail-on", "change").exit_code == 0


def test_the_error_for_a_file_that_cannot_be_explained_names_the_place() -> None:
    result = run("explain", "-", text=VALID.replace("awq", "awqq"))
    assert (result.exit_code, "standard input:7:23" in result.stderr) == (2, True)


def test_a_choice_is_recorded_for_the_objectives_of_a_file(folder: Path) -> None:
    objectives = EXAMPLES / "objectives.yaml"
    prices = folder / "prices.json"
    prices.write_text(json.dumps({"ml.p5.48xlarge": 55.0}))
    assert run("synth", str(objectives)).exit_code == 2
    offline = ("--offline", "--instance-type", "ml.p5.48xlarge", "--prices", str(prices))
    result = run("recommend", str(objectives), *offline, "--update")
    assert result.exit_code == 0, result.output
    assert "Chat:" in result.stdout
    assert len(Lock.read(folder / LOCK_FILE).choices) == 1
    assert run("synth", str(objectives)).exit_code == 0
    report = json.loads(run("recommend", str(objectives), *offline, "--json").stdout)
    assert report["Chat"]["objectives"]["time_to_first_token"] == 2000


def test_a_choice_is_for_the_region_of_the_file(folder: Path) -> None:
    (folder / "endpoint.yaml").write_text("region: eu-west-1\n" + (EXAMPLES / "objectives.yaml").read_text())
    report = json.loads(run("recommend", "endpoint.yaml", "--offline", "--json").stdout)
    assert report["Chat"]["region"] == "eu-west-1"
    assert "declares region eu-west-1" in run("recommend", "endpoint.yaml", "--offline", "--region", "us-west-2").stderr


def test_recommend_takes_objectives_from_a_file_or_from_options() -> None:
    both = run("recommend", str(EXAMPLES / "objectives.yaml"), "--offline", "--ttft", "1s")
    assert "leave out these options" in " ".join(both.stderr.replace("│", " ").split())
    none = run("recommend", QUICKSTART, "--offline")
    assert (none.exit_code, "has objectives" in none.stderr) == (2, True)

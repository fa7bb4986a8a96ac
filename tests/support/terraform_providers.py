"""Providers for Terraform that stand for hashicorp/aws and hashicorp/external, whose registry tests do without.

They have what terraform/ uses of them, with names, types, requirements and defaults of the real ones; sources:
internal/service/{cloudformation/stack.go, s3/object.go, s3/bucket_data_source.go, sts/caller_identity_data_source.go}
of hashicorp/terraform-provider-aws 6, internal/provider/data_source.go of hashicorp/terraform-provider-external 2.
Calls go where boto3's settings say.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

import boto3
from botocore.exceptions import ClientError
from tf.gen import tfplugin_pb2
from tf.iface import (
    CreateContext,
    DataSource,
    DeleteContext,
    PlanContext,
    Provider,
    ReadContext,
    ReadDataContext,
    Resource,
    UpdateContext,
)
from tf.runner import run_provider
from tf.schema import Attribute, Block, NestedBlock, NestMode, Schema
from tf.types import List, Map, Set, String, Unknown
from tf.utils import Diagnostics

VERSIONS = {"aws": "6.0.0", "external": "2.3.0"}

State = dict[str, Any]


def main() -> None:
    """Serve the provider that the executable is called after."""
    name = Path(sys.argv[0]).name.removeprefix("terraform-provider-").partition("_")[0]
    run_provider({"aws": Aws, "external": External}[name]())


def install(mirror: Path) -> None:
    """Write the providers to a filesystem mirror.

    Source of its layout: https://developer.hashicorp.com/terraform/cli/config/config-file#provider-installation.
    """
    checkout = Path(__file__).parents[2]
    program = (
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(checkout)!r})\n"
        "from tests.support.terraform_providers import main\nmain()\n"
    )
    for name, version in VERSIONS.items():
        for platform in ("linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"):
            path = (
                mirror
                / f"registry.terraform.io/hashicorp/{name}/{version}/{platform}/terraform-provider-{name}_v{version}"
            )
            path.parent.mkdir(parents=True)
            path.write_text(program)
            path.chmod(0o755)


def environment_of_providers(folder: Path) -> dict[str, str]:
    """Install the providers below a folder, and return the variables with which Terraform finds them."""
    mirror, settings = folder / "mirror", folder / "terraformrc"
    install(mirror)
    mirrored = f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n'
    settings.write_text(f"disable_checkpoint = true\n{mirrored}")
    # The providers' framework keeps its certificate at home.
    return {"HOME": str(folder), "TF_CLI_CONFIG_FILE": str(settings)}


def _text(name: str, **options: Any) -> Attribute:
    return Attribute(name, String(), **options)


class _Passed(NestedBlock):
    """A block whose value stays as Terraform has it."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        return value

    def semantically_equal(self, a_decoded: Any, b_decoded: Any) -> bool:
        return a_decoded == b_decoded


def _timeouts() -> _Passed:
    """Return Terraform's own block, which this provider does not need."""
    block = Block([_text(name, optional=True) for name in ("create", "update", "delete")])
    return _Passed("timeouts", NestMode.Single, block)


class _AtMostOne(_Passed):
    """A list of at most one block, as providers on version 2 of the SDK have them."""

    _mode_map: ClassVar = {NestMode.Set: tfplugin_pb2.Schema.NestedBlock.NestingMode.LIST}

    def __init__(self, name: str, block: Block) -> None:
        super().__init__(name, NestMode.Set, block, max_items=1)


def _default_tags() -> _AtMostOne:
    return _AtMostOne("default_tags", Block([Attribute("tags", Map(String()), optional=True)]))


class _Provider(Provider):
    name: ClassVar[str]
    data_sources: ClassVar[list[type[DataSource]]] = []
    resources: ClassVar[list[type[Resource]]] = []

    def get_model_prefix(self) -> str:
        return ""

    def full_name(self) -> str:
        return f"registry.terraform.io/hashicorp/{self.name}"

    def get_provider_schema(self, diags: Diagnostics) -> Schema:
        if self.name != "aws":
            return Schema(version=0)
        return Schema(version=0, attributes=[_text("region", optional=True)], block_types=[_default_tags()])

    def validate_config(self, diags: Diagnostics, config: State) -> None:
        pass

    def configure_provider(self, diags: Diagnostics, config: State) -> None:
        self.session = boto3.Session(region_name=config.get("region"))
        (default_tags,) = config.get("default_tags") or [{}]
        self.default_tags: dict[str, str] = default_tags.get("tags") or {}

    def get_data_sources(self) -> list[type[DataSource]]:
        return self.data_sources

    def get_resources(self) -> list[type[Resource]]:
        return self.resources


def _region() -> Attribute:
    """The argument that all Regional data sources and resources have since version 6."""
    return _text("region", optional=True, computed=True, requires_replace=True)


class _Part:
    """A data source or a resource of the provider."""

    def __init__(self, provider: _Provider) -> None:
        self.provider = provider

    def region(self, state: State) -> str:
        region = state.get("region")
        return self.provider.session.region_name if region in (None, Unknown) else region

    def client(self, service: str, state: State) -> Any:
        return self.provider.session.client(service, region_name=self.region(state))


@contextmanager
def _refusals(diagnostics: Diagnostics, what: str) -> Iterator[None]:
    """What AWS refuses is a diagnostic."""
    try:
        yield
    except ClientError as error:
        diagnostics.add_error(f"{what}: {error}")


class ExternalData(_Part, DataSource):
    @classmethod
    def get_name(cls) -> str:
        return "external"

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(
            version=0,
            attributes=[
                Attribute("program", List(String()), required=True),
                _text("working_dir", optional=True),
                Attribute("query", Map(String()), optional=True),
                Attribute("result", Map(String()), computed=True),
                _text("id", computed=True),
            ],
        )

    def read(self, ctx: ReadDataContext, config: State) -> State | None:
        program = config["program"]
        if shutil.which(program[0]) is None:
            ctx.diagnostics.add_error("External Program Lookup Failed", f"Program: {program[0]}", path=["program"])
            return None
        query = {key: value for key, value in (config["query"] or {}).items() if value is not None}
        done = subprocess.run(
            program, input=json.dumps(query), capture_output=True, text=True, cwd=config["working_dir"], check=False
        )
        if done.returncode:
            detail = f"Program: {program[0]}\nError Message: {done.stderr}\nState: exit status {done.returncode}"
            ctx.diagnostics.add_error("External Program Execution Failed", detail, path=["program"])
            return None
        return {**config, "result": json.loads(done.stdout), "id": "-"}


class External(_Provider):
    name = "external"
    data_sources: ClassVar = [ExternalData]


class CallerIdentity(_Part, DataSource):
    @classmethod
    def get_name(cls) -> str:
        return "aws_caller_identity"

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(version=0, attributes=[_text(name, computed=True) for name in ("id", "account_id")])

    def read(self, ctx: ReadDataContext, config: State) -> State | None:
        account = self.client("sts", config).get_caller_identity()["Account"]
        return {"id": account, "account_id": account}


class Bucket(_Part, DataSource):
    @classmethod
    def get_name(cls) -> str:
        return "aws_s3_bucket"

    @classmethod
    def get_schema(cls) -> Schema:
        computed = [_text(name, computed=True) for name in ("id", "bucket_region", "bucket_regional_domain_name")]
        return Schema(version=0, attributes=[_text("bucket", required=True), _region(), *computed])

    def read(self, ctx: ReadDataContext, config: State) -> State | None:
        name, region = config["bucket"], self.region(config)
        with _refusals(ctx.diagnostics, f"reading S3 Bucket ({name})"):
            if self.client("s3", config).head_bucket(Bucket=name)["BucketRegion"] != region:
                # boto3 follows S3 to the bucket's Region; the AWS SDK for Go does not.
                refused = "operation error S3: HeadBucket, https response error StatusCode: 301"
                moved = f"reading S3 Bucket ({name}): {refused}, api error MovedPermanently: Moved Permanently"
                ctx.diagnostics.add_error(moved)
                return None
            where = {"bucket_region": region, "bucket_regional_domain_name": f"{name}.s3.{region}.amazonaws.com"}
            return {"bucket": name, "region": region, "id": name, **where}
        return None


class Object(_Part, Resource):
    @classmethod
    def get_name(cls) -> str:
        return "aws_s3_object"

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(
            version=0,
            attributes=[
                *(_text(name, required=True, requires_replace=True) for name in ("bucket", "key")),
                *(_text(name, optional=True) for name in ("content", "source")),
                _text("content_type", optional=True, computed=True),
                *(_text(name, computed=True) for name in ("id", "etag")),
                _region(),
            ],
            block_types=[_AtMostOne("override_provider", Block(block_types=[_default_tags()]))],
        )

    def plan(self, ctx: PlanContext, current: State | None, planned: State) -> State | None:
        return {**planned, "etag": Unknown} if ctx.changed_fields & {"content", "source"} else planned

    def create(self, ctx: CreateContext, planned: State) -> State | None:
        source = planned["source"]
        body = Path(source).read_bytes() if source is not None else planned["content"].encode()
        kind = planned["content_type"]
        kind = "application/octet-stream" if kind in (None, Unknown) else kind
        # ignoreProviderDefaultTags
        is_tagged = not any(each["default_tags"] for each in planned["override_provider"] or ())
        tags = urlencode(self.provider.default_tags if is_tagged else {})
        to = {"Bucket": planned["bucket"], "Key": planned["key"]}
        made = self.client("s3", planned).put_object(**to, Body=body, ContentType=kind, Tagging=tags)
        known = {"content_type": kind, "id": planned["key"], "etag": made["ETag"].strip('"')}
        return {**planned, **known, "region": self.region(planned)}

    def read(self, ctx: ReadContext, current: State) -> State | None:
        try:
            found = self.client("s3", current).head_object(Bucket=current["bucket"], Key=current["key"])
        except ClientError:
            return None
        return {**current, "etag": found["ETag"].strip('"'), "content_type": found["ContentType"]}

    def update(self, ctx: UpdateContext, current: State, planned: State) -> State | None:
        return self.create(CreateContext(ctx.diagnostics, ctx.type_name), planned)

    def delete(self, ctx: DeleteContext, current: State) -> None:
        self.client("s3", current).delete_object(Bucket=current["bucket"], Key=current["key"])


class Stack(_Part, Resource):
    @classmethod
    def get_name(cls) -> str:
        return "aws_cloudformation_stack"

    @classmethod
    def get_schema(cls) -> Schema:
        return Schema(
            version=0,
            attributes=[
                _text("name", required=True, requires_replace=True),
                _text("template_url", optional=True),
                _text("iam_role_arn", optional=True),
                _text("on_failure", optional=True, requires_replace=True),
                *(Attribute(name, Set(String()), optional=True) for name in ("capabilities", "notification_arns")),
                Attribute("tags", Map(String()), optional=True),
                Attribute("parameters", Map(String()), optional=True, computed=True),
                Attribute("outputs", Map(String()), computed=True),
                _text("id", computed=True),
                _region(),
            ],
            block_types=[_timeouts()],
        )

    def plan(self, ctx: PlanContext, current: State | None, planned: State) -> State | None:
        # customdiff.ComputedIf("outputs", stackHasActualChanges)
        return {**planned, "outputs": Unknown} if ctx.changed_fields else planned

    def create(self, ctx: CreateContext, planned: State) -> State | None:
        on_failure = {"OnFailure": planned["on_failure"]} if planned["on_failure"] is not None else {}
        with _refusals(ctx.diagnostics, f"creating CloudFormation Stack ({planned['name']})"):
            client = self.client("cloudformation", planned)
            made = client.create_stack(StackName=planned["name"], **on_failure, **_input(planned))
            created = {**planned, "id": made["StackId"], "region": self.region(planned)}
            return self._settled(ctx.diagnostics, created, "create", "CREATE_COMPLETE")
        return None

    def update(self, ctx: UpdateContext, current: State, planned: State) -> State | None:
        try:
            self.client("cloudformation", planned).update_stack(StackName=current["id"], **_input(planned))
        except ClientError as error:
            if "No updates are to be performed" in str(error):
                return self._state(planned, self._described(planned))
            ctx.diagnostics.add_error(f"updating CloudFormation Stack ({current['id']}): {error}")
            return _unread(planned)
        return self._settled(ctx.diagnostics, planned, "update", "UPDATE_COMPLETE", "CREATE_COMPLETE")

    def read(self, ctx: ReadContext, current: State) -> State | None:
        stack = self._described(current)
        return None if stack["StackStatus"] == "DELETE_COMPLETE" else self._state(current, stack)

    def delete(self, ctx: DeleteContext, current: State) -> None:
        self.client("cloudformation", current).delete_stack(StackName=current["id"])
        self._settled(ctx.diagnostics, current, "delete", "DELETE_COMPLETE")

    def _described(self, state: State) -> dict[str, Any]:
        return self.client("cloudformation", state).describe_stacks(StackName=state["id"])["Stacks"][0]

    def _settled(self, diagnostics: Diagnostics, state: State, what: str, *wanted: str) -> State:
        deadline = time.monotonic() + 180
        while (stack := self._described(state))["StackStatus"].endswith("_IN_PROGRESS"):
            if time.monotonic() > deadline:
                raise TimeoutError(stack["StackStatus"])
            time.sleep(0.2)
        if (status := stack["StackStatus"]) in wanted:
            return self._state(state, stack)
        events = self.client("cloudformation", state).describe_stack_events(StackName=state["id"])["StackEvents"]
        reasons = "\n".join(event["ResourceStatusReason"] for event in events if "FAILED" in event["ResourceStatus"])
        waited = f"waiting for CloudFormation Stack ({state['id']}) {what}"
        diagnostics.add_error(f"{waited}: stack status ({status}): {reasons}")
        return _unread(state)

    def _state(self, state: State, stack: dict[str, Any]) -> State:
        parameters = {each["ParameterKey"]: each["ParameterValue"] for each in stack.get("Parameters", ())}
        configured = state["parameters"] or {}
        return {
            **state,
            "parameters": {key: value for key, value in parameters.items() if key in configured},
            "outputs": {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())},
        }


def _unread(state: State) -> State:
    """The state after an error: what was planned, as the SDK of the real provider keeps it, and nothing read."""
    return {key: None if value is Unknown else value for key, value in state.items()}


def _input(planned: State) -> dict[str, Any]:
    """The arguments of a call. Template URL, capabilities, parameters and tags are always those of the plan."""
    optional = {"RoleARN": planned["iam_role_arn"], "NotificationARNs": planned["notification_arns"]}
    return {
        "TemplateURL": planned["template_url"],
        "Capabilities": planned["capabilities"],
        "Parameters": [
            {"ParameterKey": key, "ParameterValue": value} for key, value in (planned["parameters"] or {}).items()
        ],
        "Tags": [{"Key": key, "Value": value} for key, value in (planned["tags"] or {}).items()],
        **{name: value for name, value in optional.items() if value is not None},
    }


class Aws(_Provider):
    name = "aws"
    data_sources: ClassVar = [CallerIdentity, Bucket]
    resources: ClassVar = [Object, Stack]

"""A stack that a test deploys with the unmodified CDK CLI, and what it looks at afterwards."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from constructs_optim.constructs.artifacts.planned_recipe import LOCK_FILE_CONTEXT
from constructs_optim.recipe.catalog.lock import LOCK_FILE
from constructs_optim_local.cloud import ACCOUNT, LocalCloud

CHECKOUT = Path(__file__).parent.parent.parent
CDK = CHECKOUT / "node_modules" / ".bin" / "cdk"
_LONGEST = 300
_SETTINGS = ("bucket", "group_size", "ignored_layers", "max_capacity", "model_uri", "endpoints")


@dataclass(frozen=True)
class DeployedStack:
    """A stack of ``endpoint_app.py`` or ``techniques_app.py`` with its settings, of one of the examples, or of ``app``.

    ``settings``: environment variables that ``app`` reads. ``assembly``: a cloud assembly that was synthesized before,
    instead of an app.
    """

    cloud: LocalCloud
    output: Path
    name: str
    bucket: str = ""
    group_size: int = 128
    ignored_layers: tuple[str, ...] = ()
    max_capacity: int = 4
    model_uri: str = ""
    endpoints: dict[str, Any] = field(default_factory=dict[str, Any])
    example: str = ""
    context: dict[str, str] = field(default_factory=dict[str, str])
    app: str = ""
    settings: dict[str, str] = field(default_factory=dict[str, str])
    account: str = ACCOUNT
    assembly: Path | None = None
    _clients: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def changed(self, **settings: Any) -> DeployedStack:
        return replace(self, **settings)

    def client(self, service: str) -> Any:
        return self._clients.setdefault(service, self.cloud.client(service, self.account))

    def start(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        app = {name: getattr(self, name) for name in _SETTINGS}
        environment = {
            **self.cloud.child_environment(self.account),
            "ENDPOINT_APP": json.dumps({"stack": self.name, **app}),
            **self.settings,
        }
        app_name = self.app or ("techniques_app.py" if self.endpoints else "endpoint_app.py")
        app_file = CHECKOUT / "tests" / "e2e" / app_name
        context = {LOCK_FILE_CONTEXT: str(self.output / LOCK_FILE), **self.context}
        program = f"{sys.executable} {CHECKOUT / 'examples' / self.example if self.example else app_file}"
        return subprocess.Popen(
            [
                str(CDK),
                command,
                *(() if command == "bootstrap" else (self.name,)),
                "--app",
                program if self.assembly is None else str(self.assembly),
                *(text for name, value in context.items() for text in ("--context", f"{name}={value}")),
                "--output",
                # One CLI at a time reads an assembly, and some tests run two.
                tempfile.mkdtemp(prefix=self.name.replace("/", "-"), dir=self.output),
                *arguments,
            ],
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def cdk(self, command: str, *arguments: str, fails: bool = False) -> str:
        process = self.start(command, *arguments)
        output, _ = process.communicate(timeout=_LONGEST)
        assert (process.returncode != 0) == fails, output
        return re.sub(r"\x1b\[[0-9;]*m", "", output)

    def deploy(self, *, fails: bool = False) -> str:
        return self.cdk("deploy", "--require-approval", "never", "--progress", "events", fails=fails)

    def diff(self) -> str:
        return self.cdk("diff")

    def destroy(self) -> str:
        return self.cdk("destroy", "--force")

    @property
    def resources(self) -> dict[str, list[str]]:
        """Physical ids by resource type."""
        found: dict[str, list[str]] = {}
        for resource in self.client("cloudformation").describe_stack_resources(StackName=self.name)["StackResources"]:
            found.setdefault(resource["ResourceType"], []).append(resource["PhysicalResourceId"])
        return found

    @property
    def status(self) -> str:
        return self.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"][0]["StackStatus"]

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.client("cloudformation").describe_stack_events(StackName=self.name)["StackEvents"]

    @property
    def reasons(self) -> str:
        """All that the stack's events give as reasons."""
        return "\n".join(event.get("ResourceStatusReason", "") for event in self.events)

    @property
    def endpoint(self) -> dict[str, Any]:
        (arn,) = self.resources["AWS::SageMaker::Endpoint"]
        return self.client("sagemaker").describe_endpoint(EndpointName=arn.rpartition("/")[2])

    @property
    def served_container(self) -> dict[str, Any]:
        """The container of the model that the endpoint's current configuration names."""
        sagemaker = self.client("sagemaker")
        config = sagemaker.describe_endpoint_config(EndpointConfigName=self.endpoint["EndpointConfigName"])
        model = sagemaker.describe_model(ModelName=config["ProductionVariants"][0]["ModelName"])
        return model["PrimaryContainer"]

    @property
    def outputs(self) -> dict[str, str]:
        found = self.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"][0]["Outputs"]
        return {output["OutputKey"]: output["OutputValue"] for output in found}

    @property
    def artifact_key(self) -> str:
        (key,) = self.resources["Custom::OptimizationJob"]
        return key

    def manifest(self, key: str, bucket: str | None = None) -> dict[str, Any]:
        body = self.client("s3").get_object(Bucket=bucket or self.bucket, Key=f"artifacts/{key}/manifest.json")["Body"]
        return json.loads(body.read())

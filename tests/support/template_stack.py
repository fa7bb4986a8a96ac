"""A stack that a test synthesizes itself and deploys with CloudFormation's API: quicker than the CDK CLI, and open to
changes of its template."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aws_cdk import App, DefaultStackSynthesizer, Environment, Stack
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

from .waiting import settled

ASSETS = "assets"
Build = Callable[[Stack], None]
# What is named after the stack it was synthesized in has the name of the one that it is deployed in.
_NAMED = re.compile(r"(?<![a-z0-9-])s-(?=[a-z0-9-]*[0-9a-f]{8})")
# A role's part in the deployment, read off its name: the ids of the constructs are in it, and what a physical name has
# left of their hash.
_PART = re.compile(
    r"(Optimization|(?P<of>EndpointUpdate|Evaluation|Recommendation|Shadow|Restart))Service(?P<part>[A-Za-z]+?)(Role)?[0-9A-F]{2,8}"
)


def part_of(role: str) -> str | None:
    """Which of the constructs' roles a role is, by its logical or physical name; None for all others."""
    found = _PART.search(role)
    return f"{found['of'] or ''}{found['part']}" if found else None


def synthesized(build: Build, output: Path) -> dict[str, Any]:
    """The template of a stack named S; its assets are below ``output``."""
    app = App(outdir=str(output), post_cli_context={"aws:cdk:disable-asset-staging": False})
    synthesizer = DefaultStackSynthesizer(file_assets_bucket_name=ASSETS, generate_bootstrap_version_rule=False)
    stack = Stack(app, "S", env=Environment(account="000000000000", region="us-west-2"), synthesizer=synthesizer)
    build(stack)
    app.synth()
    return json.loads((output / "S.template.json").read_text())


def upload_assets(cloud: LocalCloud, output: Path) -> None:
    """Put the functions' code where the templates look for it."""
    s3 = cloud.client("s3")
    for folder in output.glob("asset.*"):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for path in sorted(each for each in folder.rglob("*") if each.is_file()):
                archive.write(path, path.relative_to(folder))
        s3.put_object(Bucket=ASSETS, Key=f"{folder.name.removeprefix('asset.')}.zip", Body=content.getvalue())


@dataclass(frozen=True)
class TemplateStack:
    """A stack in a local cloud, made from a template."""

    cloud: LocalCloud
    name: str
    template: dict[str, Any]

    def start(self) -> None:
        """Begin to create or update the stack, as :meth:`deploy` does to its end."""
        cloudformation, key = self.cloud.client("cloudformation"), f"{self.name}.template.json"
        body = _NAMED.sub(f"{self.name.lower()}-", json.dumps(self.template))
        self.cloud.client("s3").put_object(Bucket=ASSETS, Key=key, Body=body.encode())
        given = {
            "StackName": self.name,
            "TemplateURL": f"{self.cloud.endpoint_url}/{ASSETS}/{key}",
            "Capabilities": ["CAPABILITY_IAM"],
        }
        if self._exists():
            cloudformation.update_stack(**given)
        else:
            cloudformation.create_stack(**given)

    def deploy(self) -> str:
        """Create or update the stack; its status then."""
        self.start()
        return self.settled()

    def delete(self) -> str:
        """Delete the stack; its status then, DELETE_COMPLETE when it is gone."""
        self.cloud.client("cloudformation").delete_stack(StackName=self.name)
        return self.settled()

    def settled(self, seconds: float = 300) -> str:
        """The stack's status once nothing is in progress."""
        status = settled(lambda: self.status, lambda status: not status.endswith("_IN_PROGRESS"), seconds)
        assert not status.endswith("_IN_PROGRESS"), f"{self.name} is still {status}: {self.reasons}"
        return status

    @property
    def status(self) -> str:
        try:
            found = self.cloud.client("cloudformation").describe_stacks(StackName=self.name)
        except ClientError:
            return "DELETE_COMPLETE"
        return found["Stacks"][0]["StackStatus"]

    @property
    def reasons(self) -> str:
        """All that the stack's events give as reasons."""
        events = self.cloud.client("cloudformation").describe_stack_events(StackName=self.name)["StackEvents"]
        return "\n".join(event["ResourceStatusReason"] for event in events if event.get("ResourceStatusReason"))

    def resource(self, part: str) -> str:
        """The physical id of the one resource whose logical id contains ``part``."""
        described = self.cloud.client("cloudformation").describe_stack_resources(StackName=self.name)
        (found,) = [
            resource["PhysicalResourceId"]
            for resource in described["StackResources"]
            if part in resource["LogicalResourceId"]
        ]
        return found

    def another(self, name: str) -> TemplateStack:
        """The same stack under another name, with a recipe and so with an artifact of its own."""
        template = copy.deepcopy(self.template)
        for resource in template["Resources"].values():
            if resource["Type"] == "Custom::OptimizationJob":
                resource["Properties"]["RecipeKey"] = hashlib.sha256(name.encode()).hexdigest()
        return replace(self, name=name, template=template)

    def impatient(self) -> TemplateStack:
        """The same stack, which gives up sooner: half of a function's time it waits for permissions on their way."""
        template = copy.deepcopy(self.template)
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::Lambda::Function":
                resource["Properties"]["Timeout"] = 10
            if resource["Type"] == "AWS::StepFunctions::StateMachine":
                for state in resource["Properties"]["Definition"]["States"].values():
                    for retry in state.get("Retry", []):
                        retry["MaxAttempts"] = 1
        return replace(self, template=template)

    def without(self, part: str, action: str) -> TemplateStack:
        """The same stack, its role ``part`` not allowed ``action``; it gives up sooner."""
        assert (part, action) in allowed(self.template), f"{part} is not allowed {action} in the first place"
        impatient = self.impatient()
        for logical_id, resource in impatient.template["Resources"].items():
            if resource["Type"] != "AWS::IAM::Role" or part_of(logical_id) != part:
                continue
            for policy in resource["Properties"]["Policies"]:
                statements = policy["PolicyDocument"]["Statement"]
                for statement in statements:
                    statement["Action"] = [listed for listed in actions(statement) if listed != action]
                policy["PolicyDocument"]["Statement"] = [found for found in statements if found["Action"]]
        return impatient

    def _exists(self) -> bool:
        return self.status not in ("DELETE_COMPLETE", "REVIEW_IN_PROGRESS")


def actions(statement: dict[str, Any]) -> list[str]:
    """The actions of a statement."""
    return [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]


def allowed(template: dict[str, Any]) -> set[tuple[str, str]]:
    """What the constructs' roles are allowed: pairs of part and action."""
    found = template["Resources"]
    inline = [
        (logical_id, policy["PolicyDocument"])
        for logical_id, resource in found.items()
        if resource["Type"] == "AWS::IAM::Role"
        for policy in resource["Properties"].get("Policies", [])
    ]
    beside = [
        (role.get("Ref", ""), resource["Properties"]["PolicyDocument"])
        for resource in found.values()
        if resource["Type"] == "AWS::IAM::Policy"
        for role in resource["Properties"].get("Roles", [])
        if isinstance(role, dict)
    ]
    return {
        (part, action)
        for logical_id, document in [*inline, *beside]
        if (part := part_of(logical_id))
        for statement in document["Statement"]
        for action in actions(statement)
    }


def made(cloud: LocalCloud, folder: Path, name: str, build: Build) -> TemplateStack:
    stack = TemplateStack(cloud, name, synthesized(build, folder))
    upload_assets(cloud, folder)
    return stack


def endpoint_of(stack: TemplateStack) -> dict[str, Any]:
    client = stack.cloud.client("sagemaker")
    return client.describe_endpoint(EndpointName=physical(stack, "AWS::SageMaker::Endpoint").rpartition("/")[2])


def physical(stack: TemplateStack, type_name: str, part: str = "") -> str:
    resources = stack.cloud.client("cloudformation").describe_stack_resources(StackName=stack.name)["StackResources"]
    (physical_id,) = [
        resource["PhysicalResourceId"]
        for resource in resources
        if resource["ResourceType"] == type_name and part in resource["LogicalResourceId"]
    ]
    return physical_id

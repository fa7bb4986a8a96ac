"""The preflight of a template from a shell: what is new in it, and what only its deployment knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from constructs_optim.operations.preflight import StackPreflight
from constructs_optim.operations.stacks import DeployedStack, DeployedTemplates
from constructs_optim.runtime.preflight.report import Report
from constructs_optim.templates.resource_types import ENDPOINT, PREFLIGHT
from constructs_optim.templates.template import Template

from ..support.answers import Answers

MODEL = {"Kind": "s3", "S3Uri": "s3://models/mine/"}
ROLE = {"RoleArn": {"Fn::GetAtt": ["Role", "Arn"]}, "Images": ["own"]}


class Deployed:
    """What CloudFormation has of the stack."""

    def __init__(self, template: Mapping[str, Any] | None = None) -> None:
        self._template = template

    def template(self, stack_name: str, region: str, parents: object) -> Mapping[str, Any] | None:
        return self._template

    def stack(self, stack_name: str, region: str, parents: object) -> DeployedStack | None:
        if self._template is None:
            return None
        ids = {name: name.lower() for name in self._template["Resources"] if name != "Role"}
        return DeployedStack(stack_name, "UPDATE_COMPLETE", "111122223333", region, Template(self._template), ids)

    def physical_id(self, stack_name: str, region: str, logical_id: str, parents: object) -> str | None:
        return None if self._template is None else logical_id.lower()

    def exported(self, name: str, region: str) -> str | None:
        return None


def stack(**properties: Any) -> dict[str, Any]:
    resources = {"Role": {"Type": "AWS::IAM::Role"}, "Preflight": {"Type": PREFLIGHT, "Properties": properties}}
    return {"Resources": resources}


def report(
    template: Mapping[str, Any], before: Mapping[str, Any] | None = None, answers: Answers | None = None
) -> Report:
    preflight = StackPreflight("Chat", template, "111122223333", "us-west-2")
    return preflight.report((answers or Answers()).client, cast("DeployedTemplates", Deployed(before)))


def no_files() -> Answers:
    return Answers(s3=[("list_objects_v2", {})])


def test_values_known_only_at_deployment_are_advice() -> None:
    (finding,) = report(stack(Roles=[ROLE])).findings
    assert finding.level == "advice"
    assert finding.text == "not checked, because the values are known only at deployment: Roles (Role.Arn)"


def test_a_resource_that_is_deployed_is_known() -> None:
    allowed = [{"EvalActionName": "ecr:GetAuthorizationToken", "EvalDecision": "allowed"}]
    answers = Answers(iam=[("simulate_principal_policy", {"EvaluationResults": allowed})])
    assert report(stack(Roles=[ROLE]), stack(), answers).findings == ()


def test_what_a_deployed_preflight_has_looked_at_is_not_looked_at_again() -> None:
    assert report(stack(Models=[MODEL]), stack(Models=[MODEL])).findings == ()
    assert [finding.level for finding in report(stack(Models=[MODEL]), stack(), no_files()).findings] == ["problem"]


def test_a_stack_that_runs_without_a_preflight_is_only_advised() -> None:
    running = {"Resources": {"Endpoint": {"Type": ENDPOINT}}}
    other = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    for before, level in ((running, "advice"), (other, "problem"), (None, "problem")):
        (finding,) = report(stack(Models=[MODEL]), before, no_files()).findings
        assert finding.level == level

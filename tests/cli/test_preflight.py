"""``constructs-optim preflight``: what it prints, and what its exit status says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app
from constructs_optim.templates.resource_types import PREFLIGHT

from ..support.denials import deny
from ..support.handwritten_templates import resource, stack, written
from ..support.operator_stores import Store
from ..support.watched_endpoints import Watched
from ..support.watched_endpoints import watched as watched_resources

pytestmark = pytest.mark.local
NOTHING = "s3://nothing-at-all/model/"
LOOKS = {
    "Preflight": resource(
        PREFLIGHT, Models=[{"Kind": "s3", "S3Uri": NOTHING}], OptimizationJobs=["a63320d1"], Images=["public/image"]
    )
}


def preflight(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["preflight", *map(str, arguments)])


def test_every_finding_has_what_to_do_and_a_problem_is_status_1(store: Store, tmp_path: Path) -> None:
    folder = written(tmp_path, stack(LOOKS))
    result = preflight(folder)
    assert result.exit_code == 1, result.output
    first, *lines = result.stdout.splitlines()
    assert first == "Chat: 1 problem, 2 pieces of advice, 3 checks"
    assert lines[0] == "  problem  model: there is no bucket nothing-at-all"
    assert lines[1] == "    Next: use another one"
    assert [line.split()[0] for line in lines[::2]] == ["problem", "advice", "advice"]


def test_json_has_the_findings_of_each_stack(store: Store, tmp_path: Path) -> None:
    folder = written(tmp_path, stack(LOOKS), stack({"Preflight": resource(PREFLIGHT)}, path="Sound"))
    result = preflight(folder, "--json")
    assert result.exit_code == 1, result.output
    first, second = json.loads(result.stdout)
    assert first["problems"] == [
        {"check": "model", "text": "there is no bucket nothing-at-all", "fix": "use another one"}
    ]
    assert [each["check"] for each in first["advice"]] == ["quota", "image"]
    assert second == {"stack": "Sound", "problems": [], "advice": []}
    assert preflight(folder, "--stack", "Sound").exit_code == 0


def test_an_endpoint_file_is_checked_too(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = preflight(Path(__file__).parents[2] / "examples" / "quickstart.yaml", "--json")
    assert result.exit_code in (0, 1), result.stderr
    (report,) = json.loads(result.stdout)
    assert report["stack"] == "Quickstart"
    assert {finding["check"] for finding in report["advice"]} >= {"quota"}


def test_stacks_without_a_preflight_or_of_another_account_are_refused(store: Store, tmp_path: Path) -> None:
    result = preflight(written(tmp_path / "none", stack({"Queue": resource("AWS::SQS::Queue")})))
    assert result.exit_code == 2
    assert "has no stack with a preflight: remove the context key constructs-optim:preflight" in result.stderr
    elsewhere = preflight(written(tmp_path / "elsewhere", replace(stack(LOOKS), account="111122223333")))
    assert elsewhere.exit_code == 2
    assert "these stacks belong to other accounts: Chat (111122223333)" in elsewhere.stderr


def test_permissions_that_a_deployed_role_lost_are_a_problem_unless_the_deployment_changes_them(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, looks = Watched(store.cloud), {"Preflight": resource(PREFLIGHT)}
    name = watched.stack.name
    resources = {**watched_resources(), **looks}
    folder = written(tmp_path / "same", replace(stack(resources), path=name, stack_name=name))
    assert preflight(folder).exit_code == 0
    watched.delete_role_policy("pull")
    watched.delete_role_policy("grant")
    result = preflight(folder)
    assert result.exit_code == 1, result.output
    role = watched.stack.physical_id("Role")
    text = f"permissions: Role lost permissions of the role {role} (the policy pull is gone): Allow ecr:Get* on *"
    assert f"  problem  {text}\n    Next: `cdk deploy --revert-drift` restores it\n" in result.stdout
    assert f"put it back with `aws iam put-role-policy --role-name {role} --policy-name grant" in result.stdout
    resources["Role"]["Properties"]["Description"] = "changed"
    changed = written(tmp_path / "changed", replace(stack(resources), path=name, stack_name=name))
    assert "the policy pull is gone" not in preflight(changed).stdout
    deny(monkeypatch, "ListStackResources")
    denied = preflight(folder)
    assert (denied.exit_code, "not compared: ListStackResources is denied" in denied.stdout) == (0, True)
    watched.stack.delete()

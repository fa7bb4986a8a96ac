"""The examples synthesize unchanged and pass all template checks."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import aws_cdk
import pytest
from aws_cdk import App
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from ..support.construct_stacks import digests_of, masked, resource, resources
from . import iam_reference
from .oracles import REGIONS, cfn_lint_errors, state_machine_errors
from .upgrade_policy import broken, unannounced

CHECKOUT = Path(__file__).parent.parent.parent
EXAMPLES = CHECKOUT / "examples"


NAMES = ["app.py", *sorted(path.name for path in EXAMPLES.glob("*.py"))]
# What a lock file records otherwise.
CONTEXTS = {"huggingface.py": {"revision": "0123456789abcdef0123456789abcdef01234567"}}
# Synthesized as the CDK CLI runs an app, with the CDK's own validation; make nightly does so with the others.
VALIDATED = ["app.py", "production.py"]


def templates_of(name: str, out: Path) -> dict[str, dict[str, Any]]:
    """The example's templates by stack name, synthesized in this process."""
    with pytest.MonkeyPatch.context() as patched:
        context = CONTEXTS.get(name, {})
        patched.setattr(aws_cdk, "App", lambda **options: App(outdir=str(out), context=context, **options))
        runpy.run_path(str(path_of(name)), run_name="__main__")
    return templates_in(out)


def validated_templates_of(name: str, out: Path) -> dict[str, dict[str, Any]]:
    """The same, synthesized as by the CDK CLI, without violations from the CDK's own validation."""
    context = {"CDK_CONTEXT_JSON": json.dumps(CONTEXTS.get(name, {}))}
    environment = {
        **os.environ,
        "CDK_OUTDIR": str(out),
        "PYTHONPATH": str(CHECKOUT),
        "CDK_VALIDATION": "true",
        **context,
    }
    subprocess.run([sys.executable, str(path_of(name))], env=environment, check=True, timeout=120)
    assert not violations_in(out)
    return templates_in(out)


def path_of(name: str) -> Path:
    return CHECKOUT / name if name == "app.py" else EXAMPLES / name


def templates_in(out: Path) -> dict[str, dict[str, Any]]:
    return {path.name.split(".")[0]: json.loads(path.read_text()) for path in out.glob("*.template.json")}


def violations_in(out: Path) -> list[dict[str, Any]]:
    """Unacknowledged violations from the CDK's own validation and the example's policies."""
    reports = json.loads((out / "validation-report.json").read_text())["pluginReports"]
    return [found for report in reports for found in report["violations"]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(set(NAMES) - set(VALIDATED)))
def test_cdk_validation_finds_no_violations_in_any_example(name: str, tmp_path: Path) -> None:
    assert validated_templates_of(name, tmp_path / "run") == templates_of(name, tmp_path / "in_process")


@pytest.mark.parametrize("name", NAMES)
def test_an_example_passes_all_template_checks_and_matches_its_snapshot(
    name: str, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    created = (validated_templates_of if name in VALIDATED else templates_of)(name, tmp_path)
    assert created
    for template in created.values():
        of_one_region = "us-west-2" in json.dumps(template)
        assert cfn_lint_errors(template, ["us-west-2"] if of_one_region else REGIONS) == []
        assert state_machine_errors(template) == []
        assert iam_reference.unexpected(template) == set()
    assert unannounced(name, created) == set()
    kept = masked if name in VALIDATED else digests_of
    assert {stack: kept(template) for stack, template in sorted(created.items())} == snapshot(
        extension_class=JSONSnapshotExtension
    )


def test_each_change_that_an_upgrade_may_not_make_is_found() -> None:
    before = {"Kept": ["AWS::S3::Bucket"], "Model": ["AWS::SageMaker::Model", "0a"], "Job": ["Custom::OptimizationJob"]}
    assert broken(before, {**before, "New": ["AWS::S3::Bucket"]}) == []
    policy = {"Policy": ["AWS::IAM::Policy", "s3:GetObject", "s3:PutObject"]}
    assert broken(policy, {"Policy": ["AWS::IAM::Policy", "s3:GetObject"]}) == []
    assert broken(policy, {"Policy": [*policy["Policy"], "s3:DeleteObject"]}) == ["Policy"]
    assert broken(before, {"Kept": ["AWS::SNS::Topic"], "Model": ["AWS::SageMaker::Model", "0b"]}) == [*before]


def test_the_eagle_example_trains_heads_in_one_stack_and_serves_in_another(tmp_path: Path) -> None:
    created = templates_of("eagle_in_two_stacks.py", tmp_path)
    training, serving = created["Training"], created["Serving"]
    assert "WaitHandle" not in resource(training, "Custom::OptimizationJob")
    assert "444455556666:root" in json.dumps(resource(training, "AWS::S3::BucketPolicy"))
    assert not resources(serving, "Custom::OptimizationJob")
    artifact = resource(serving, "Custom::OptimizedArtifact")
    assert artifact["ArtifactKey"] == training["Outputs"]["ArtifactKey"]["Value"]
    assert artifact["Bucket"] == resource(training, "AWS::S3::Bucket")["BucketName"]
    assert "Fn::ImportValue" not in json.dumps(serving), "either stack is deployed without the other"

"""A rollback that failed: what commands say of it, and how it is continued with the CDK CLI."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import DeployedStack
from ..support.shared_stores import BUCKET
from ..support.template_stack import TemplateStack
from ..support.uploaded_models import upload_model
from ..support.variant_scaling import VariantScaling

APP = f"""
import os
from aws_cdk import App, Environment, Stack, aws_sagemaker as sagemaker
from constructs_optim import Model, OptimizedEndpoint

app = App()
stack = Stack(app, "Stuck", env=Environment(region="us-west-2"))
endpoint = OptimizedEndpoint(
    stack, "Chat", model=Model.s3("s3://{BUCKET}/models/stuck/"), techniques=[], instance_type="ml.g5.12xlarge"
)
scaling = endpoint.auto_scale(max_capacity=int(os.environ["MOST"])).on_concurrency(target=8)
if "LATE" in os.environ:
    late = sagemaker.CfnEndpoint(stack, "Late", endpoint_config_name="missing")
    late.node.add_dependency(scaling)
app.synth()
"""


@pytest.mark.exhaustive
def test_a_rollback_that_failed_is_named_and_continued_once_its_cause_is_gone(
    cloud: LocalCloud, tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP)
    upload_model(cloud.client("s3"), BUCKET, "models/stuck")
    stack = DeployedStack(cloud, tmp_path, "Stuck", app=str(app), settings={"MOST": "2"})
    stack.deploy()
    endpoint = stack.endpoint["EndpointName"]
    cloud.inject("server_error", operation="RegisterScalableTarget", skip=1)
    replace(stack, settings={"MOST": "4", "LATE": "1"}).deploy(fails=True)
    template = TemplateStack(cloud, "Stuck", {})
    assert template.status == "UPDATE_ROLLBACK_FAILED", template.reasons
    shown = show(cloud, endpoint)
    assert shown.returncode == 1
    assert "the stack Stuck is UPDATE_ROLLBACK_FAILED" in shown.stdout
    assert "Next: https://constructs-optim.dev/reliability/#a-rollback-that-failed" in shown.stdout
    assert stack.endpoint["EndpointStatus"] == "InService"
    cloud.clear_faults()
    stack.cdk("rollback")
    assert template.status == "UPDATE_ROLLBACK_COMPLETE"
    assert VariantScaling(template).range == (1, 2)
    stack.deploy()
    assert show(cloud, endpoint).returncode == 0
    stack.destroy()


def show(cloud: LocalCloud, endpoint: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "constructs_optim", "endpoint", "show", endpoint],
        env={**cloud.child_environment(), "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )

"""A policy's report, as the real CDK CLI shows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.deployed_stack import CDK, CHECKOUT

pytestmark = pytest.mark.e2e

_APP = """
import aws_cdk as cdk
from constructs_optim import Model, OptimizedEndpoint, PlatformPolicy, PolicyValidation, Quantization

policy = PlatformPolicy(
    allowed_instance_types=["ml.p5.*"], vpc_required=True, reasons={"POL001": "reserved until June"}
)
app = cdk.App(builtin_cloud_formation_validation=False)
stack = cdk.Stack(app, "Governed", env=cdk.Environment(account="111122223333", region="us-west-2"))
chat = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
    techniques=[Quantization.awq()],
    instance_type="ml.g5.12xlarge",
)
PolicyValidation.acknowledge(chat, "POL031", reason="no VPC in the sandbox")
cdk.Validations.of(app).add_plugins(PolicyValidation(policy))
app.synth()
"""


@pytest.fixture(autouse=True)
def no_faults() -> None:
    """Nothing is deployed here: no local cloud is started for it."""


def test_cdk_synth_reports_policy_findings_and_fails(tmp_path: Path) -> None:
    app, out = tmp_path / "app.py", tmp_path / "out"
    app.write_text(_APP)
    command = [str(CDK), "synth", "--quiet", "--app", f"{sys.executable} {app}", "--output", str(out)]
    # Neither variable is there when people run the CLI; by them the CDK knows tests, and reports otherwise.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {"PYTHONPATH": str(CHECKOUT), "NO_COLOR": "1", "CI": "1"}
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert done.returncode != 0, shown
    assert "ml.g5.12xlarge': the policy does not allow this instance type (reserved until June)" in shown
    assert "one of ml.p5.*" in shown
    assert "Governed/Chat/Config" in shown
    assert "constructs-optim-policy::POL001" in shown
    reports = json.loads((out / "validation-report.json").read_text())["pluginReports"]
    (report,) = (one for one in reports if one["pluginName"] == "constructs-optim-policy")
    assert [one["ruleName"] for one in report["violations"]] == ["POL001"]
    assert {one["reason"] for one in report["suppressedViolations"]} == {"no VPC in the sandbox"}

"""The example of a GitHub Actions workflow, its steps run as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from .templates import chat, stack, written

ROOT = Path(__file__).parent.parent.parent
WORKFLOW = ROOT / "examples" / "github" / "explain.yml"


def step(name: str) -> dict[str, Any]:
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["explain"]["steps"]
    return next(each for each in steps if each.get("name") == name)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the steps before have left, with the command where a shell finds it."""
    written(tmp_path / "base.out", stack(chat()))
    written(tmp_path / "head.out", stack(chat(generation="2", key="b" * 64)))
    (tmp_path / "head").mkdir()
    (tmp_path / "head" / "prices.json").write_text('{"ml.g5.12xlarge": 7.09}')
    command = tmp_path / "bin" / "constructs-optim"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom constructs_optim.cli import main\nmain()\n")
    command.chmod(0o755)
    return tmp_path


def test_the_workflow_explains_and_keeps_one_comment(checkout: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(checkout / "summary.md"),
        "GITHUB_OUTPUT": str(checkout / "output"),
    }
    script = ["bash", "-e", "-o", "pipefail", "-c", step("Explain")["run"]]
    subprocess.run(script, cwd=checkout, env=environment, check=True, timeout=120)
    explanation = (checkout / "explanation.md").read_text(encoding="utf-8")
    assert "Another one than before (artifact aaaaaaaaaaaa)." in explanation
    assert (checkout / "summary.md").read_text(encoding="utf-8") == explanation
    assert (checkout / "output").read_text() == "status=0\n"

    ours = {"id": 7, "body": explanation.replace("bbbb", "cccc")}
    theirs = {"id": 6, "body": "What does it cost?"}
    assert commented(checkout, [theirs]) == {"create": {**PLACE, "issue_number": 3, "body": explanation}}
    assert commented(checkout, [theirs, ours]) == {"update": {**PLACE, "comment_id": 7, "body": explanation}}


def test_what_aws_refuses_is_commented_on_before_the_check_fails(checkout: Path) -> None:
    retyped = chat()
    retyped["Model"]["Type"] = "Custom::OptimizedModel"
    written(checkout / "head.out", stack(retyped))
    environment = {
        **os.environ,
        "PATH": f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(checkout / "summary.md"),
        "GITHUB_OUTPUT": str(checkout / "output"),
    }
    script = ["bash", "-e", "-o", "pipefail", "-c", step("Explain")["run"]]
    subprocess.run(script, cwd=checkout, env=environment, check=True, timeout=120)
    assert "CloudFormation refuses the deployment" in (checkout / "explanation.md").read_text(encoding="utf-8")
    assert (checkout / "output").read_text() == "status=1\n"
    assert step("Refuse")["run"] == "exit ${{ steps.explain.outputs.status }}"


PLACE = {"owner": "team", "repo": "chat"}
_HARNESS = """
const [script, comments] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const called = {};
const context = { repo: { owner: "team", repo: "chat" }, issue: { number: 3 } };
const issues = {
  listComments: "listComments",
  createComment: async (given) => { called.create = given; },
  updateComment: async (given) => { called.update = given; },
};
const github = { rest: { issues }, paginate: async (what, given) => (what === "listComments" ? comments : []) };
const run = new Function("github", "context", "require", `return (async () => {${script}})()`);
run(github, context, require).then(() => console.log(JSON.stringify(called)));
"""


def commented(checkout: Path, comments: list[dict[str, Any]]) -> dict[str, Any]:
    """What the last step asks of GitHub where these comments are there."""
    node = os.environ.get("JSII_NODE") or "node"
    given = json.dumps([step("Comment")["with"]["script"], comments])
    done = subprocess.run(
        [node, "-e", _HARNESS], cwd=checkout, input=given, capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)

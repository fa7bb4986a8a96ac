"""The example of a GitHub Actions workflow, its steps run as they are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from constructs_optim.explanation.text import MARKER

from ..support.handwritten_templates import chat, stack, written

ROOT = Path(__file__).parent.parent.parent
WORKFLOW = ROOT / "examples" / "github" / "explain.yml"


def jobs() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]


def step(name: str) -> dict[str, Any]:
    return next(each for job in jobs().values() for each in job["steps"] if each.get("name") == name)


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


def explain(checkout: Path) -> None:
    """Run the workflow's step."""
    environment = {
        **os.environ,
        "PATH": f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(checkout / "summary.md"),
        "GITHUB_OUTPUT": str(checkout / "output"),
    }
    script = ["bash", "-e", "-o", "pipefail", "-c", step("Explain")["run"]]
    subprocess.run(script, cwd=checkout, env=environment, check=True, timeout=120)


def test_the_workflow_explains_and_keeps_one_comment(checkout: Path) -> None:
    explain(checkout)
    explanation = (checkout / "explanation.md").read_text(encoding="utf-8")
    assert "Another artifact than before (artifact aaaaaaaaaaaa)." in explanation
    assert (checkout / "summary.md").read_text(encoding="utf-8") == explanation
    assert (checkout / "output").read_text() == "status=0\n"

    left(checkout, explanation)
    ours = {"id": 7, "body": explanation.replace("bbbb", "cccc"), "user": {"login": "github-actions[bot]"}}
    theirs = {"id": 6, "body": "What does it cost?", "user": {"login": "github-actions[bot]"}}
    forged = {**ours, "id": 5, "user": {"login": "somebody"}}
    created = {"create": {**PLACE, "issue_number": 3, "body": explanation}}
    assert commented(checkout, [theirs]) == created
    assert commented(checkout, [forged]) == created, "the comment of somebody else is left alone"
    assert commented(checkout, [forged, theirs, ours]) == {"update": {**PLACE, "comment_id": 7, "body": explanation}}


@pytest.mark.parametrize("body", ["", "Approved by security", "x" * 300_000, f"{MARKER}\n{'x' * 70_000}"])
def test_an_invalid_explanation_is_not_posted_as_a_comment(tmp_path: Path, body: str) -> None:
    left(tmp_path, body)
    with pytest.raises(subprocess.CalledProcessError):
        commented(tmp_path, [])


def test_the_branch_s_code_runs_in_a_job_without_write_permissions() -> None:
    assert yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["permissions"] == {}
    synthesize, comment = jobs()["synthesize"], jobs()["comment"]
    assert synthesize["permissions"] == {"contents": "read"}
    checkouts = [each for each in synthesize["steps"] if each.get("uses", "").startswith("actions/checkout@")]
    assert [each["with"]["persist-credentials"] for each in checkouts] == [False, False]
    assert comment["permissions"] == {"pull-requests": "write"}
    # Neither a checkout nor a shell: nothing of the branch is there to be run, and no text becomes a command.
    assert not any("run" in each or "actions/checkout" in each["uses"] for each in comment["steps"])
    assert "${{" not in step("Comment")["with"]["script"]


def test_actions_are_pinned_to_commits() -> None:
    used = [line.strip() for line in WORKFLOW.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert used
    for line in used:
        assert re.fullmatch(r"(- )?uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def left(folder: Path, explanation: str) -> None:
    """What the job that comments has downloaded."""
    (folder / "explanation").mkdir()
    (folder / "explanation" / "explanation.md").write_text(explanation, encoding="utf-8")


def test_a_refused_deployment_is_commented_on_before_the_check_fails(checkout: Path) -> None:
    retyped = chat()
    retyped["Model"]["Type"] = "Custom::OptimizedModel"
    written(checkout / "head.out", stack(retyped))
    explain(checkout)
    assert "CloudFormation refuses the deployment" in (checkout / "explanation.md").read_text(encoding="utf-8")
    assert (checkout / "output").read_text() == "status=1\n"
    assert jobs()["synthesize"]["outputs"]["status"] == "${{ steps.explain.outputs.status }}"
    refuse = jobs()["refuse"]
    assert refuse["needs"] == ["synthesize", "comment"]
    assert refuse["if"] == "needs.synthesize.outputs.status != '0'"
    assert [each["run"] for each in refuse["steps"]] == ["exit 1"]


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
run(github, context, require).then(() => console.log(JSON.stringify(called)), () => process.exit(1));
"""


def commented(checkout: Path, comments: list[dict[str, Any]]) -> dict[str, Any]:
    """What the last step asks of GitHub where these comments are there."""
    node = os.environ.get("JSII_NODE") or "node"
    given = json.dumps([step("Comment")["with"]["script"], comments])
    done = subprocess.run(
        [node, "-e", _HARNESS], cwd=checkout, input=given, capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def test_a_workflow_job_reads_outputs_only_of_its_steps_and_needed_jobs() -> None:
    for name, job in jobs().items():
        text = json.dumps(job)
        own = {each["id"] for each in job["steps"] if "id" in each}
        assert set(re.findall(r"steps\.([\w-]+)\.outputs", text)) <= own, name
        assert set(re.findall(r"needs\.([\w-]+)\.outputs", text)) <= set(job.get("needs", ())), name

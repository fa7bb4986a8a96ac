"""The tutorial, with its own code: quantized, deployed, asked, measured, gated, rolled back."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import CHECKOUT, DeployedStack
from ..support.documents import snippets

pytestmark = pytest.mark.trains

PAGE = CHECKOUT / "docs" / "tutorial.md"
PREPARE, APP, ASK = (snippet.code for snippet in snippets(PAGE) if snippet.language == "python")
(CHANGE,) = (snippet.code for snippet in snippets(PAGE) if snippet.language == "diff")
COMMANDS = [
    line.removeprefix("$ ")
    for snippet in snippets(PAGE)
    if snippet.language == "console"
    for line in snippet.code.splitlines()
]
TOLD = [snippet.code for snippet in snippets(PAGE) if snippet.language == "text"]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud that serves and has llm-compressor."""
    quantizer = CHECKOUT / ".venv-quantization" / "bin"
    with LocalCloud(serve=True, endpoint_seconds=0.2, time_scale=0.005, training_path=quantizer) as running:
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


def printed(cloud: LocalCloud, folder: Path, *command: str) -> str:
    """What a command of the tutorial prints."""
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **cloud.child_environment()},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def quantization(cloud: LocalCloud, stack: DeployedStack) -> dict[str, Any]:
    """What the served model's configuration says of its weights."""
    uri = stack.served_container["ModelDataSource"]["S3DataSource"]["S3Uri"]
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    body = cloud.client("s3").get_object(Bucket=bucket, Key=f"{prefix}config.json")["Body"].read()
    return json.loads(body)["quantization_config"]


def test_the_tutorial_ends_with_an_answer_and_a_bad_release_that_is_rolled_back(
    cloud: LocalCloud, tmp_path: Path
) -> None:
    for name, code in (("prepare.py", PREPARE), ("app.py", APP), ("ask.py", ASK)):
        (tmp_path / name).write_text(code)
    printed(cloud, tmp_path, "prepare.py")
    stack = DeployedStack(cloud, tmp_path, "Chat", app=str(tmp_path / "app.py"))
    stack.deploy()
    name = stack.outputs["EndpointName"]
    assert f"Chat.EndpointName = {name}\n" in TOLD
    assert quantization(cloud, stack)["format"] == "pack-quantized"
    asked = COMMANDS.index(f"python ask.py {name}")
    answer = printed(cloud, tmp_path, "ask.py", name)
    assert answer == f"{COMMANDS[asked + 1]}\n", "what the page shows"

    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Why is a small model fast?"}')
    (evaluate,) = (shlex.split(line) for line in COMMANDS if line.startswith("constructs-optim evaluate"))
    printed(cloud, tmp_path, "-m", "constructs_optim", *evaluate[1:])
    (result,) = (tmp_path / "evaluations").glob("*/endpoint.json")
    levels = EvaluationResult.model_validate_json(result.read_text()).levels
    assert [level.metrics["client_invocations"] for level in levels] == [16, 16]
    assert all(level.metrics["time_to_first_token_p50"] > 0 for level in levels)

    removed, added = (line[1:] for line in CHANGE.splitlines())
    assert removed in APP
    (tmp_path / "app.py").write_text(APP.replace(removed, added))
    stack.deploy(fails=True)
    assert TOLD[-1].strip() in stack.reasons
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert printed(cloud, tmp_path, "ask.py", name) == answer

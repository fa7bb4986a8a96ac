"""From objectives to an endpoint that is held to its forecast: proposed, deployed, measured, and rolled back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock, RecordedChoice
from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import CHECKOUT, DeployedStack
from ..support.hub_documents import write_document

EXAMPLE = CHECKOUT / "examples" / "objectives.py"
MODEL = "meta-textgeneration-llama-3-70b-instruct"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A bootstrapped local cloud that enforces IAM, with the example's model in its hub."""
    hub = tmp_path_factory.mktemp("hub")
    write_document(hub / MODEL, ("2.25.0",))
    with LocalCloud(
        job_seconds=(0.2, 0.2), endpoint_seconds=0.2, time_scale=0.005, enforce_iam=True, hub_folders=[hub]
    ) as running:
        DeployedStack(running, tmp_path_factory.mktemp("bootstrap"), "Bootstrap").cdk("bootstrap")
        yield running


@pytest.fixture
def stack(cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeployedStack:
    """The example's, with a lock file in the folder of commands, which have the cloud's credentials."""
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return DeployedStack(cloud, tmp_path, "Intended", example=EXAMPLE.name)


def recommend(*options: str) -> str:
    """What the command of the example's docstring prints."""
    command = re.search(r"constructs-optim (recommend .*?)\n\"\"\"", EXAMPLE.read_text(), flags=re.DOTALL)
    assert command is not None
    given = command[1].replace("\\", " ").split()
    result = CliRunner().invoke(app, [*given, *options], catch_exceptions=False, env={"COLUMNS": "1000"})
    assert result.exit_code == 0, result.output
    return result.output


def recorded() -> RecordedChoice:
    (choice,) = Lock.read(Path(LOCK_FILE)).choices.values()
    return choice


def bucket_of(stack: DeployedStack) -> str:
    (bucket,) = stack.resources["AWS::S3::Bucket"]
    return bucket


def result_of(stack: DeployedStack) -> dict[str, Any]:
    (evaluation,) = stack.resources["Custom::EndpointEvaluation"]
    key = f"evaluations/{evaluation}/result.json"
    return json.loads(stack.client("s3").get_object(Bucket=bucket_of(stack), Key=key)["Body"].read())


def test_objectives_become_an_endpoint_that_is_held_to_its_forecast(cloud: LocalCloud, stack: DeployedStack) -> None:
    assert "OPT235" in stack.deploy(fails=True), "nothing is chosen at synthesis"
    said = " ".join(recommend("--update").split())
    assert f"{MODEL} 2.25.0 in us-west-2, for 5 requests/s" in said
    assert f"in {LOCK_FILE}: " in said
    choice = recorded()
    alone = choice.forecast.with_users[1]
    cloud.set_performance(ttft_ms=alone.time_to_first_token_ms[0], itl_ms=alone.inter_token_latency_ms[0])
    stack.deploy()
    before = stack.endpoint
    (variant,) = before["ProductionVariants"]
    assert variant["DesiredInstanceCount"] == choice.instances
    compared = result_of(stack)["forecast"]
    assert {each["concurrency"] for each in compared} == {*choice.forecast.with_users}
    assert all(each["holds"] for each in compared), compared
    proposed = recommend("--store", bucket_of(stack), "--update")
    yours = r"^(1\b.*|All): forecast from \d+ measurements .*, 2 of them yours; median error"
    assert re.search(yours, proposed, re.MULTILINE), proposed
    assert re.search(r"first token after \S+ \(\S+ to \S+\) ms instead of", proposed)

    # A batch of another size is another recipe, which is measured.
    (pool,) = choice.pools
    other = choice.model_copy(update={"pools": (pool.model_copy(update={"max_concurrent_requests": 8}),)})
    lock = Lock.read(Path(LOCK_FILE))
    lock.model_copy(update={"choices": dict.fromkeys(lock.choices, other)}).write(Path(LOCK_FILE))
    cloud.set_performance(ttft_ms=20_000)
    stack.deploy(fails=True)
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert re.search(r"but the forecast is \S+ \(.+?\) \S+ and allows at most", stack.reasons)
    assert stack.endpoint["EndpointConfigName"] == before["EndpointConfigName"]

"""``constructs-optim captures`` on what an endpoint of the local cloud captured."""

from __future__ import annotations

import json
import stat
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.main import app

from ..support.hosting import make_config, make_model, settled
from ..support.operator_stores import Store

pytestmark = pytest.mark.local
_numbers = count()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["captures", *arguments])


@pytest.fixture
def source(store: Store) -> str:
    """What an endpoint captured of three chats and a completion."""
    sagemaker, runtime = store.cloud.client("sagemaker"), store.cloud.client("sagemaker-runtime")
    name, uri = f"captured-{next(_numbers)}", f"s3://{store.bucket}/captures"
    capture = {
        "EnableCapture": True,
        "InitialSamplingPercentage": 100,
        "DestinationS3Uri": uri,
        "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    }
    make_model(sagemaker, name)
    make_config(sagemaker, name, name, DataCaptureConfig=capture)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert settled(sagemaker, name)["EndpointStatus"] == "InService"
    questions = [{"role": "user", "content": f"Question {number}, to me@example.com"} for number in range(3)]
    for body in (*({"messages": [each]} for each in questions), {"inputs": "Once upon a time"}):
        runtime.invoke_endpoint(EndpointName=name, ContentType="application/json", Body=json.dumps(body))
    return f"{uri}/{name}/AllTraffic/"


def test_captures_of_a_prefix_become_a_workload(source: str, tmp_path: Path) -> None:
    file = tmp_path / "workload.jsonl"
    result = run(source, "--output", str(file), "--redact")
    assert result.exit_code == 0, result.output
    assert "3 of 4 captures to" in result.stdout
    assert "Skipped 1" in result.stdout
    assert "--custom-dataset-type sagemaker_data_capture" in result.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    written = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(written) == 3
    assert "me@example.com" not in file.read_text()


def test_unredacted_content_is_listed(source: str, tmp_path: Path) -> None:
    result = run(source, "--output", str(tmp_path / "prompts.jsonl"), "--as", "prompts")
    assert result.exit_code == 0, result.output
    assert "The file is not redacted" in result.stdout
    assert len((tmp_path / "prompts.jsonl").read_text().splitlines()) == 4


def test_a_file_that_exists_is_not_replaced(source: str, tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    file.write_text("kept")
    result = run(source, "--output", str(file))
    assert (result.exit_code, file.read_text()) == (2, "kept")
    assert "Cannot write" in result.output


def test_without_captures_no_file_is_left(source: str, tmp_path: Path) -> None:
    file = tmp_path / "none.jsonl"
    result = run(f"{source}2020/", "--output", str(file))
    assert result.exit_code == 2
    assert "there are no captures under" in result.output
    assert not file.exists()
    assert run(source, "--output", str(file), "--sample", "0").exit_code == 2

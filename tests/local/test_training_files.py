"""Inputs and outputs of training jobs, and metrics in their logs, without a cloud."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim_local.access.authorization import Unchecked
from constructs_optim_local.sagemaker.execution import ExecutionRoles
from constructs_optim_local.sagemaker.training.files import TrainingFiles, TransferFailed
from constructs_optim_local.sagemaker.training.host import Host
from constructs_optim_local.sagemaker.training.job import algorithm_error
from constructs_optim_local.sagemaker.training.telemetry import TrainingMetrics

from ..support.local_cloud import ROLE
from .training import channel


class Bucket:
    """Objects in memory; the content of each is its URI."""

    def __init__(self, keys: list[str]) -> None:
        self._uris = sorted({f"s3://bucket/{key}" for key in keys})

    def put(self, job: str, objects: dict[str, bytes]) -> None:
        raise AssertionError("a download writes nothing")

    def upload(self, path: Path, uri: str, key_id: str | None) -> None:
        raise AssertionError("a download writes nothing")

    def read(self, uri: str) -> bytes | None:
        return uri.encode() if uri in self._uris else None

    def etag(self, uri: str) -> str | None:
        raise AssertionError("a download compares nothing")

    def uris(self, uri: str) -> list[str]:
        return [found for found in self._uris if found.startswith(uri)]

    def download(self, uri: str, path: Path) -> None:
        path.write_text(uri)


SEGMENTS = st.sampled_from(["a", "b", "ab", "", ".", "..", "x y"])
KEYS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join).filter(bool)


@given(keys=st.lists(KEYS, min_size=1, max_size=6), prefix=KEYS)
def test_a_channel_downloads_every_object_of_its_prefix_or_fails(keys: list[str], prefix: str) -> None:
    uri, bucket = f"s3://bucket/{prefix}", Bucket(keys)
    job = {"InputDataConfig": [channel("data", uri)], "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"}}
    job |= {"TrainingJobName": "job", "TrainingJobArn": "arn:aws:sagemaker:us-west-2:0:training-job/job"}
    with tempfile.TemporaryDirectory() as folder:
        host = Host("algo-1", 1, Path(folder) / "host")
        failed = False
        try:
            TrainingFiles({**job, "RoleArn": ROLE}, bucket, ExecutionRoles(Unchecked())).download([host])
        except TransferFailed:
            failed = True
        written = {path: path.read_text() for path in Path(folder).rglob("*") if path.is_file()}
        assert all(path.is_relative_to(host.channel("data")) for path in written)
        assert all(uri.endswith(path.relative_to(host.channel("data")).as_posix()) for path, uri in written.items())
        if not failed:
            assert sorted(written.values()) == [item for item in bucket.uris(uri) if not item.endswith("/")]


@pytest.mark.parametrize(
    ("regex", "line", "value"),
    [
        (r"loss=([0-9.e+-]+)", "loss=1.5e-3 loss=0.5", 0.5),
        (r"(?:^|\s)loss=([0-9.]+);", "head_1_loss=3; loss=2;", 2),
        (r"[0-9.]+ tokens", "12 tokens", None),
        (r"[0-9]+", "step 12", 12),
        (r"loss=(\S+)", "loss=nan", None),
        (r"loss=(\S+)|accuracy", "accuracy", None),
    ],
)
def test_a_training_metric_is_the_last_match_of_its_regex(regex: str, line: str, value: float | None) -> None:
    metrics = TrainingMetrics([{"Name": "m", "Regex": regex}])
    metrics.read(line, dt.datetime.now(dt.UTC))
    assert [found["Value"] for found in metrics.final()] == ([] if value is None else [value])


@given(text=st.text(max_size=3000), status=st.integers(1, 255))
def test_a_truncated_failure_reason_still_ends_with_the_exit_code(text: str, status: int) -> None:
    reason = algorithm_error(text, status)
    assert reason.startswith("AlgorithmError: ")
    assert reason.endswith(f", exit code: {status}")
    assert len(reason) <= 1024


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("/opt/ml", "{root}"),
        ("--out=/opt/ml/model", "--out={root}/model"),
        ("cd ${SAGEMAKER_BASE_DIR:-/opt/ml} && ls '/opt/ml'", "cd ${{SAGEMAKER_BASE_DIR:-{root}}} && ls '{root}'"),
        ("/opt/mlflow /mnt/opt/ml /opt/ml-2", "/opt/mlflow /mnt/opt/ml /opt/ml-2"),
    ],
)
def test_paths_below_opt_ml_are_mapped_to_the_folder_of_the_host(text: str, becomes: str) -> None:
    host = Host("algo-1", 1, Path("/somewhere"))
    assert host.text(text) == becomes.format(root=host.root)

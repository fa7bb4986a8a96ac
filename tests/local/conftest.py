from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from constructs_optim_local.cloud import LocalCloud
from tests.support.in_process import InProcessCloud
from tests.support.waiting import by_the_clock
from tests.support.waiting import until as until

BUCKET = "outputs"
ROLE = "arn:aws:iam::000000000000:role/execution"


@pytest.fixture(scope="session")
def cloud() -> Iterator[LocalCloud]:
    """A local cloud in which everything is over soon."""
    with LocalCloud(job_seconds=(0.3, 0.3), endpoint_seconds=0.2) as running:
        running.client("s3").create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": running.region}
        )
        yield running


@pytest.fixture(scope="module")
def brisk() -> Iterator[LocalCloud]:
    """A local cloud in which a thousand seconds of a deployment or a policy are one; each file has its own."""
    with LocalCloud(job_seconds=(0.3, 0.3), endpoint_seconds=0.1, time_scale=0.001) as running:
        yield running


@pytest.fixture(scope="module")
def in_process() -> Iterator[InProcessCloud]:
    """SageMaker in this process, where waiting advances a clock; each file has its own."""
    cloud = InProcessCloud()
    cloud.client("s3").create_bucket(Bucket=BUCKET)
    with by_the_clock(cloud.clock):
        yield cloud


@pytest.fixture(scope="session")
def sagemaker(cloud: LocalCloud) -> Any:
    return cloud.client("sagemaker")


@pytest.fixture(autouse=True)
def no_faults(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in {"brisk", "cloud", "in_process"} & set(request.fixturenames):
        request.getfixturevalue(name).clear_faults()
        request.getfixturevalue(name).clear_performances()


def plain_client(cloud: LocalCloud, **config: Any) -> Any:
    """A SageMaker client with a configuration of its own, for instance one that leaves all checking to the service."""
    return boto3.client(
        "sagemaker",
        endpoint_url=cloud.endpoint_url,
        region_name=cloud.region,
        aws_access_key_id=cloud.environment()["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=cloud.environment()["AWS_SECRET_ACCESS_KEY"],
        config=Config(**config),
    )


class Answers:
    """Where CloudFormation would receive answers."""

    def __init__(self) -> None:
        answers = self.received = list[dict[str, Any]]()

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                answers.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def answers(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    cloud.client("s3").put_object(Bucket=BUCKET, Key="models/mine/model.safetensors", Body=b"weights")
    cloud.client("s3").put_object(Bucket=BUCKET, Key="drafts/one/model.safetensors", Body=b"draft")
    made = Answers()
    yield made
    made.stop()

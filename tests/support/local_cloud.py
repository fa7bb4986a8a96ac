"""Test helpers for a local cloud: its bucket and role, and a server for custom resource responses."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from typing import Any

import boto3
from botocore.config import Config

from constructs_optim_local.cloud import LocalCloud

BUCKET = "outputs"
ROLE = "arn:aws:iam::000000000000:role/execution"


@functools.cache
def shared_client(cloud: LocalCloud, service: str) -> Any:
    """A client that tests share: making one takes longer than most calls."""
    return cloud.client(service)


def empty_bucket(cloud: LocalCloud, *prefixes: str) -> None:
    """Delete what earlier tests left below some prefixes, so that nothing reads it again and again."""
    s3 = shared_client(cloud, "s3")
    for prefix in prefixes:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix):
            if keys := [{"Key": item["Key"]} for item in page.get("Contents", [])]:
                s3.delete_objects(Bucket=BUCKET, Delete={"Objects": keys, "Quiet": True})


def plain_client(cloud: LocalCloud, **config: Any) -> Any:
    """A SageMaker client with a custom configuration, for instance one that leaves validation to the service."""
    return boto3.client(
        "sagemaker",
        endpoint_url=cloud.endpoint_url,
        region_name=cloud.region,
        aws_access_key_id=cloud.environment()["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=cloud.environment()["AWS_SECRET_ACCESS_KEY"],
        config=Config(**config),
    )


def idle_state_machine(cloud: LocalCloud, name: str) -> str:
    """The ARN of a state machine that does nothing, for tests that invoke its functions themselves."""
    definition = {"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}
    return cloud.client("stepfunctions").create_state_machine(
        name=name, definition=json.dumps(definition), roleArn=ROLE
    )["stateMachineArn"]


class Responses:
    """A server that receives the responses and signals to CloudFormation."""

    def __init__(self) -> None:
        responses = self.received = list[dict[str, Any]]()

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                responses.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

"""The services whose clients a function can create: botocore would list all of them, twice in a cold start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from constructs_optim.runtime import aws

RUNTIME = Path(aws.__file__).parent
_CLIENT = re.compile(r'\bclient\(\s*"([a-z0-9-]+)"')


def test_clients_can_be_created_of_the_services_that_functions_call() -> None:
    called = {name for path in RUNTIME.rglob("*.py") for name in _CLIENT.findall(path.read_text())}
    loader = aws.session().get_component("data_loader")
    assert set(loader.list_available_services("service-2")) == called


def test_clients_of_any_service_are_kept_and_retry_as_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    found = aws.any_client("ec2")
    assert (found.meta.service_model.service_name, found.meta.region_name) == ("ec2", "us-west-2")
    assert aws.any_client("ec2") is found
    config, usual = found.meta.config, aws.client("s3").meta.config
    assert (config.retries, config.read_timeout) == (usual.retries, usual.read_timeout)
    aws.forget_clients()
    assert aws.any_client("ec2") is not found

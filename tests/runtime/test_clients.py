"""The services whose clients a function can create: botocore would list all of them, twice in a cold start."""

from __future__ import annotations

import re
from pathlib import Path

from constructs_optim.runtime import aws

RUNTIME = Path(aws.__file__).parent
_CLIENT = re.compile(r'\bclient\(\s*"([a-z0-9-]+)"')


def test_clients_can_be_created_of_the_services_that_functions_call() -> None:
    called = {name for path in RUNTIME.rglob("*.py") for name in _CLIENT.findall(path.read_text())}
    loader = aws.session().get_component("data_loader")
    assert set(loader.list_available_services("service-2")) == called

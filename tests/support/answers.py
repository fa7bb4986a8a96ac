"""AWS clients whose answers a test states, checked by botocore as ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3
from botocore.stub import Stubber

from constructs_optim.runtime.preflight.context import Context

from .in_process import InProcessCloud

REGION = "us-west-2"


Stated = list[tuple[str, Mapping[str, Any] | str]]


class Answers:
    """Clients by service: ``(operation, answer)`` in the order of the calls; an answer is a response or a code.

    ``asked`` has the parameters of the calls of stated answers.
    """

    def __init__(self, cloud: InProcessCloud | None = None, **services: Stated) -> None:
        self._cloud = cloud
        self._stubbed: dict[str, Any] = {}
        self.asked: list[dict[str, Any]] = []
        for name, answers in services.items():
            service = name.replace("_", "-")
            client = boto3.client(service, region_name=REGION, aws_access_key_id="a", aws_secret_access_key="b")  # type: ignore[call-overload]
            stubber = Stubber(client)
            for operation, answer in answers:
                if isinstance(answer, str):
                    stubber.add_client_error(operation, answer, f"the message of {answer}")
                else:
                    stubber.add_response(operation, dict(answer))
            stubber.activate()
            client.meta.events.register("provide-client-params", self._note)
            self._stubbed[service] = client

    def _note(self, params: dict[str, Any], **_: Any) -> None:
        self.asked.append(params)

    def client(self, service: str) -> Any:
        if service in self._stubbed or self._cloud is None:
            return self._stubbed[service]
        return self._cloud.client(service)

    def context(self, *, is_update: bool = False) -> Context:
        return Context(self.client, REGION, is_update)

"""Calls of a command that AWS denies."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.model import OperationModel

from constructs_optim.cli.aws import Account


def deny(patch: pytest.MonkeyPatch, *operations: str) -> None:
    """Let AWS deny these operations to the commands."""
    made = Account.client

    def refuse(model: OperationModel, **_: object) -> None:
        if model.name in operations:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not authorized"}}, model.name)

    def client(account: Account, service: str, region: str | None = None) -> Any:
        found = made(account, service, region)
        found.meta.events.register("before-call", refuse)
        return found

    patch.setattr(Account, "client", client)

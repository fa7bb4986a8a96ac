"""The context of checks: the clients for an account and Region, and whether the deployment updates endpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from ..errors import DENIED, code_of


@dataclass(frozen=True)
class Context:
    """An account and Region.

    Attributes:
        create_client: creates the client for a service by botocore's name.
        region: the Region.
        is_update: whether an existing endpoint is certain to get new instances; otherwise it may keep its own.
    """

    create_client: Callable[[str], Any]
    region: str
    is_update: bool = False
    _clients: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)

    def client(self, service: str) -> Any:
        """Return the client for a service, created once."""
        if service not in self._clients:
            self._clients[service] = self.create_client(service)
        return self._clients[service]


def is_denied(error: ClientError) -> bool:
    """Return whether a permission is missing."""
    return code_of(error) in DENIED

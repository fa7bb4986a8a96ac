"""What checks ask with: the clients of an account and region, and what a deployment changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from ..errors import DENIED, code_of


@dataclass(frozen=True)
class Context:
    """An account and region.

    Attributes:
        create_client: creates the client of a service by botocore's name.
        region: the region.
        is_update: whether an endpoint that exists gets new instances for certain; it may keep them otherwise.
    """

    create_client: Callable[[str], Any]
    region: str
    is_update: bool = False
    _clients: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)

    def client(self, service: str) -> Any:
        """The client of a service, which is created once."""
        if service not in self._clients:
            self._clients[service] = self.create_client(service)
        return self._clients[service]


def is_denied(error: ClientError) -> bool:
    """Whether a permission is missing."""
    return code_of(error) in DENIED

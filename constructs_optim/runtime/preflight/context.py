"""What checks ask with: the clients of an account and region, and what a deployment changes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from ..errors import code_of

_DENIED = frozenset({"403", "AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})


@dataclass(frozen=True)
class Context:
    """An account and region.

    Attributes:
        create_client: creates the client of a service by botocore's name.
        region: the region.
        changed: the endpoints whose instances this deployment replaces; None where that is not known.
    """

    create_client: Callable[[str], Any]
    region: str
    changed: Collection[str] | None = None
    _clients: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)

    def client(self, service: str) -> Any:
        """The client of a service, which is created once."""
        if service not in self._clients:
            self._clients[service] = self.create_client(service)
        return self._clients[service]


def is_denied(error: ClientError) -> bool:
    """Whether a permission is missing."""
    return code_of(error) in _DENIED

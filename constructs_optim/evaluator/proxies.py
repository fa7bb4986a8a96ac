"""The proxy through which a server is reached, as the environment names it: what curl and the AWS CLI heed as well."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from .errors import EvaluationError


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy.

    Attributes:
        host: name or address.
        port: of TCP.
        authorization: what its ``Proxy-Authorization`` header says. Default: none is sent.
    """

    host: str
    port: int
    authorization: str | None = None

    def tunnel(self, host: str, port: int) -> bytes:
        """The request that opens a connection to a server through it."""
        authorization = f"Proxy-Authorization: {self.authorization}\r\n" if self.authorization else ""
        return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}\r\n".encode()


def proxy_for(scheme: str, host: str) -> Proxy | None:
    """What ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``, or the system's settings, say of a server.

    Raises:
        EvaluationError: where they name what is no HTTP proxy.
    """
    named = getproxies().get(scheme)
    if not named or proxy_bypass(host):
        return None
    parts = urlsplit(named if "://" in named else f"http://{named}")
    if parts.scheme != "http" or not parts.hostname:
        raise EvaluationError(
            f"{scheme.upper()}_PROXY names a proxy that is reached by {parts.scheme!r}: only http:// proxies are "
            f"supported; NO_PROXY={host} goes around it"
        )
    authorization = None
    if parts.username:
        said = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(said.encode()).decode()
    return Proxy(parts.hostname, parts.port or 80, authorization)

"""Where requests go: any OpenAI-compatible server, or a SageMaker endpoint with response streaming."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from .connection import Server
from .errors import EvaluationError
from .formats import Format, FormatName
from .proxies import proxy_for

if TYPE_CHECKING:
    from boto3 import Session

_CREDENTIALS_LAST_SECONDS = 120


class Target(Protocol):
    """What is sent to."""

    server: Server
    model: str | None

    async def request(self, body: bytes, written: Format) -> bytes:
        """A whole HTTP/1.1 request with that body, to be sent at once.

        Raises:
            EvaluationError: where it cannot be signed.
        """
        ...


class UrlTarget:
    """A server that speaks HTTP, such as vLLM, llama.cpp, ``transformers serve`` or an LMI container on its own."""

    def __init__(self, url: str, *, model: str | None = None, api_key: str | None = None) -> None:
        """Choose a server.

        Args:
            url: of the API, such as ``http://127.0.0.1:8000/v1``; the path of the format is added to it.
            model: the name under which the server knows the model. Default: none is sent.
            api_key: sent as a bearer token. Default: none is sent.

        Raises:
            EvaluationError: where the URL is none that can be sent to.
        """
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise EvaluationError(f"{url!r} is no URL of a server: use one such as http://127.0.0.1:8000/v1")
        if parts.username or parts.query:
            raise EvaluationError("the URL has credentials or a query in it; give a key with --api-key-variable")
        self.model = model
        self.server: Server = _server(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80))
        self._path = parts.path.rstrip("/")
        self._host = parts.netloc
        self._authorization = f"Authorization: Bearer {api_key}\r\n" if api_key else ""

    async def request(self, body: bytes, written: Format) -> bytes:
        """A whole HTTP/1.1 request with that body."""
        head = (
            f"POST {self._path_of(written)} HTTP/1.1\r\nHost: {self._host}\r\nUser-Agent: constructs-optim\r\n"
            f"Content-Type: application/json\r\nAccept: text/event-stream\r\nAccept-Encoding: identity\r\n"
            f"{self._authorization}Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def _path_of(self, written: Format) -> str:
        ending = "/chat/completions" if written.name is FormatName.OPENAI else "/invocations"
        return self._path if self._path.endswith((ending, "/generate_stream")) else f"{self._path}{ending}"


class SageMakerTarget:
    """A SageMaker endpoint, invoked with ``InvokeEndpointWithResponseStream``.

    boto3's client waits for a whole frame in a thread of its own for each request. Here the request is signed by
    botocore and sent by the event loop, so that hundreds of streams can be timed at once.
    """

    model: str | None = None

    def __init__(
        self,
        session: Session,
        endpoint_name: str,
        *,
        variant_name: str | None = None,
        inference_component_name: str | None = None,
    ) -> None:
        """Choose an endpoint.

        Args:
            session: whose region and credentials are used.
            endpoint_name: of the endpoint.
            variant_name: the production variant to invoke. Default: as the weights of the variants say.
            inference_component_name: the component to invoke, where the endpoint has some.

        Raises:
            EvaluationError: where there are no credentials.
            botocore.exceptions.BotoCoreError: where the session has no region.
        """
        client: Any = session.client("sagemaker-runtime")
        parts = urlsplit(client.meta.endpoint_url)
        self._credentials: Any = session.get_credentials()
        if self._credentials is None:
            raise EvaluationError(
                "there are no AWS credentials: sign in (`aws sso login`), or name a profile with --profile"
            )
        self._region: str = client.meta.region_name
        self._url = f"{client.meta.endpoint_url.rstrip('/')}/endpoints/{endpoint_name}/invocations-response-stream"
        self._headers = {
            "Content-Type": "application/json",
            **({"X-Amzn-SageMaker-Target-Variant": variant_name} if variant_name else {}),
            **({"X-Amzn-SageMaker-Inference-Component": inference_component_name} if inference_component_name else {}),
        }
        scheme, host = parts.scheme, parts.hostname or ""
        self._host = parts.netloc
        self._path = urlsplit(self._url).path
        self.server: Server = _server(scheme, host, parts.port or (443 if scheme == "https" else 80))

    async def request(self, body: bytes, written: Format) -> bytes:
        """A whole, signed HTTP/1.1 request with that body.

        Raises:
            EvaluationError: where the credentials cannot be renewed.
        """
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError

        renew = getattr(self._credentials, "refresh_needed", None)
        try:
            if renew is not None and renew(_CREDENTIALS_LAST_SECONDS):
                # Renewing asks a service and waits for it: not on the loop that takes the times.
                frozen = await asyncio.to_thread(self._credentials.get_frozen_credentials)
            else:
                frozen = self._credentials.get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            raise EvaluationError(f"the AWS credentials cannot be renewed: {error}") from None
        signed = AWSRequest("POST", self._url, data=body, headers=dict(self._headers))
        SigV4Auth(frozen, "sagemaker", self._region).add_auth(signed)
        headers = "".join(f"{name}: {value}\r\n" for name, value in signed.headers.items())
        head = f"POST {self._path} HTTP/1.1\r\nHost: {self._host}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
        return head.encode() + body


def _server(scheme: str, host: str, port: int) -> Server:
    if scheme == "http":
        return Server(host, port)
    # What botocore and curl heed.
    bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
    try:
        tls = ssl.create_default_context(cafile=bundle)
    except OSError as error:
        raise EvaluationError(f"the certificates of {bundle} cannot be read: {error}") from None
    return Server(host, port, tls, proxy_for("https", host))

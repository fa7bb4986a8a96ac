"""A server that has one task of models without text, at the paths of vLLM and as SageMaker's runtime passes it on.

Paths: vLLM 0.30, ``entrypoints/pooling/*/api_router.py``; a server has those of its model's task alone. A reranker also
classifies (``entrypoints/pooling/factories.py``).
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from constructs_optim.runtime.evaluation.pooled_outputs import PooledTask
from constructs_optim_local.sagemaker.hosting import pooled_outputs

_PATHS = {
    "embed": ("/v1/embeddings",),
    "rerank": ("/rerank", "/v1/rerank", "/classify"),
    "classify": ("/classify",),
}


class PooledServer:
    """A server in threads of its own. ``seconds`` is the time of a response, and ``salt`` changes what it says."""

    def __init__(self, task: PooledTask, *, salt: str = "", seconds: float = 0.005) -> None:
        self.task, self.salt, self.seconds = task, salt, seconds
        self.requests: list[dict[str, Any]] = []
        self.counts_tokens = True
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

    def answer(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.requests.append({"path": path, "body": request})
        if not path.endswith("/invocations") and path not in _PATHS[self.task]:
            return 404, {"detail": "Not Found"}
        texts = pooled_outputs.texts_of(request)
        if any("fault:500" in text for text in texts):
            return 500, {"message": "asked for 500"}
        known = {"embed": (), "rerank": ("a reranker",), "classify": ("a classifier",)}[self.task]
        tokens = sum(len(text.split()) for text in texts)
        found = pooled_outputs.pooled(request, known, self.salt, tokens)
        if found is None:
            return 400, {"message": "Cannot find suitable handler for request"}
        if not self.counts_tokens:
            del found["usage"]
        time.sleep(self.seconds)
        return 200, found


def _handler(server: PooledServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            status, found = server.answer(self.path, json.loads(content))
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler

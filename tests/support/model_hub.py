"""A hub of models on loopback, which huggingface_hub's own client talks to.

Source: huggingface_hub 2, ``hf_api.py`` and ``file_download.py`` (paths, headers) and ``utils/_http.py`` (the codes of
``X-Error-Code``).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

# Owner, name, what is asked for, and the revision.
_SHORTEST = 4


@dataclass(frozen=True)
class HubModel:
    """A model at one commit. ``token`` is the only one that gets its files, None for a public model.

    ``damaged`` has files that arrive with other content than their hashes say.
    """

    commit: str
    files: Mapping[str, bytes]
    token: str | None = None
    damaged: frozenset[str] = frozenset()

    def sibling(self, name: str) -> dict[str, Any]:
        """What the hub says of a file: large files are kept by their SHA-256, small ones by git's hash."""
        content = self.files[name]
        entry: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": _blob(content)}
        if name.endswith((".safetensors", ".bin")):
            sha256 = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"size": len(content), "sha256": sha256, "pointerSize": 134}
        return entry

    def etag(self, name: str) -> str:
        """A file's hash, as its kind has it."""
        entry = self.sibling(name)
        return entry["lfs"]["sha256"] if "lfs" in entry else entry["blobId"]


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass
class ModelHub:
    """The hub: its models by id, or by id and commit ("owner/name@commit"), its address, and what it was asked for."""

    models: dict[str, HubModel]
    url: str = ""
    downloads: list[str] = field(default_factory=list)


@contextmanager
def serving(models: Mapping[str, HubModel]) -> Iterator[ModelHub]:
    """Serve models until the block ends."""
    hub = ModelHub(dict(models))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(with_body=True)

        def do_HEAD(self) -> None:
            self._reply(with_body=False)

        def _reply(self, *, with_body: bool) -> None:
            status, headers, body = self._response(unquote(urlsplit(self.path).path).strip("/"), with_body=with_body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def _response(self, path: str, *, with_body: bool) -> tuple[int, dict[str, str], bytes]:
            is_listing = path.startswith("api/models/")
            parts = path.removeprefix("api/models/").split("/")
            if len(parts) < _SHORTEST:
                return _refused(404, "RepoNotFound", "Repository not found")
            owner, name, verb, revision, *file = parts
            model = hub.models.get(f"{owner}/{name}@{revision}", hub.models.get(f"{owner}/{name}"))
            if model is None:
                return _refused(401, "RepoNotFound", "Repository not found")
            if revision not in (model.commit, "main"):
                return _refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            if is_listing and verb == "revision":
                return 200, {"Content-Type": "application/json"}, self._listing(f"{owner}/{name}", model)
            if model.token is not None and self.headers.get("Authorization") != f"Bearer {model.token}":
                return _refused(401, "GatedRepo", "Access to this model is restricted")
            wanted = "/".join(file)
            if wanted not in model.files:
                return _refused(404, "EntryNotFound", "Entry not found")
            content = model.files[wanted]
            if with_body:
                hub.downloads.append(f"{owner}/{name}/{wanted}")
            if wanted in model.damaged:
                content = bytes(len(content))
            return 200, {"ETag": f'"{model.etag(wanted)}"', "X-Repo-Commit": model.commit}, content

        def _listing(self, model_id: str, model: HubModel) -> bytes:
            siblings = [model.sibling(name) for name in sorted(model.files)]
            described = {
                "id": model_id,
                "modelId": model_id,
                "sha": model.commit,
                "private": False,
                "gated": "manual" if model.token is not None else False,
                "cardData": {"license": "apache-2.0"},
                "tags": [],
                "siblings": siblings,
            }
            return json.dumps(described).encode()

        def log_message(self, format: str, *args: object) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def _refused(status: int, code: str, message: str) -> tuple[int, dict[str, str], bytes]:
    return status, {"X-Error-Code": code, "X-Error-Message": message}, b""

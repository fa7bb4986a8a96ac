"""Stands in for an environment's interpreter where vLLM is not installed: ``stand_in_engine.py SCRIPT`` or ``-m ...``.

What it does is written in the model's config.json as ``stand_in``: the ``answer`` of the configuration, ``error``, the
log of a server that ends, ``quantized_error``, one of a server with quantized weights, ``waits``, a server that is
never healthy, ``refuses``, what is in questions that it answers with an error, or ``fails``, whether all questions end
in the server's own error. What it was given is written into the file RECORD.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("record.jsonl")


def record(**given: Any) -> None:
    with RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps(given) + "\n")


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def behavior(arguments: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    config = json.loads((Path(option(arguments, "--model")) / "config.json").read_text(encoding="utf-8"))
    return config, config.get("stand_in", {})


def configure() -> None:
    question = json.load(sys.stdin)
    record(step="configuration", gpu=question["gpu"], arguments=question["arguments"], environment=dict(os.environ))
    kind = {"runner": "generate", "convert": "none", "reads_images": False, "context": 40_960}
    print(json.dumps(behavior(question["arguments"])[1].get("answer", {"kind": kind})))  # noqa: T201


def serve(arguments: list[str]) -> None:
    config, does = behavior(arguments)
    record(step="server", config=config, arguments=arguments, environment=dict(os.environ))
    error = does.get("quantized_error") if "quantization_config" in config else None
    if error := error or does.get("error"):
        print(error)  # noqa: T201
        sys.exit(1)
    if does.get("waits"):
        worker = subprocess.Popen(["sleep", "600"])
        record(step="worker", pid=worker.pid)
        worker.wait()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(200, {"data": [{"id": "served"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            record(step="question", path=self.path, body=body)
            is_refused = any(word in f"{self.path} {body}" for word in does.get("refuses", ()))
            status = 500 if does.get("fails") else 400 if is_refused else 200
            self._reply(status, {"error": {"message": "the engine is wrong"}})

        def _reply(self, status: int, content: Any) -> None:
            encoded = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, format: str, *args: object) -> None:
            """Be silent."""

    HTTPServer(("127.0.0.1", int(option(arguments, "--port"))), Handler).serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "-m":
        serve(sys.argv[2:])
    else:
        configure()

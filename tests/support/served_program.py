"""A model server that says what it was started with: ``served_program.py MODEL PORT ARGUMENTS...``.

Its variable BEHAVIOR has it never be healthy (``never``), or end at once (``ends``). A request may ask it to wait
(``sleep``), to answer with a status (``status``), to break off a stream (``breaks``), to answer something that is no
HTTP (``malformed``), or to end (``ends``). ``from_now_on`` has it treat later requests so, too.
"""

from __future__ import annotations

import http.server
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

MODEL, PORT, ARGUMENTS = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
BEHAVIOR = os.environ.get("BEHAVIOR")
FROM_NOW_ON: dict[str, Any] = {}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.respond(200, "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 7\n")
            return
        self.respond(200 if self.path == "/health" and BEHAVIOR != "never" else 404, {})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "from_now_on" in request:
            FROM_NOW_ON.clear()
            FROM_NOW_ON.update(request["from_now_on"])
            self.respond(200, {})
            return
        request = {**FROM_NOW_ON, **request}
        if self.path == "/invocations" and BEHAVIOR == "openai alone":
            self.respond(404, {})
            return
        if request.get("ends"):
            os._exit(3)
        time.sleep(request.get("sleep", 0))
        if request.get("breaks"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"part")
            return
        if request.get("malformed"):
            self.wfile.write(b"no HTTP\r\n\r\n")
            return
        said = {
            "path": self.path,
            "port": PORT,
            "pid": os.getpid(),
            "arguments": ARGUMENTS,
            "environment": dict(os.environ),
            "files": sorted(path.relative_to(MODEL).as_posix() for path in MODEL.rglob("*") if path.is_file()),
            "content_type": self.headers["Content-Type"],
        }
        self.respond(request.get("status", 200), said)

    def respond(self, status: int, value: Any) -> None:
        body = (value if isinstance(value, str) else json.dumps(value)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    if BEHAVIOR == "ends":
        sys.exit("no such model")
    http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()

"""``python -m constructs_optim_local.light_server --model FOLDER --port PORT``: serve a model until SIGTERM."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def main() -> int:
    """Serve, and return the exit status."""
    parser = argparse.ArgumentParser(prog="light_server", allow_abbrev=False)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name")
    parser.add_argument("--max-model-len", type=int)
    # A plan has arguments for an engine, which this server ignores.
    given, ignored = parser.parse_known_args()
    # Several servers share the machine, and threads do not help with small matrices.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from werkzeug.serving import WSGIRequestHandler, make_server

    from .application import Application
    from .weights import UnreadableModel

    try:
        application = Application(
            given.model, given.served_model_name or given.model.name, most_tokens=given.max_model_len
        )
    except UnreadableModel as error:
        sys.stderr.write(f"{error}\n")
        return 1

    class Handler(WSGIRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Log a request in one plain line."""
            self.log("info", '"%s" %s', self.requestline, code)

    server = make_server(given.host, given.port, application, threaded=True, request_handler=Handler)
    sys.stdout.write(f"serving {given.model} at http://{given.host}:{server.port}\n")
    if ignored:
        sys.stdout.write(f"ignored arguments of engines: {' '.join(ignored)}\n")
    sys.stdout.flush()
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())

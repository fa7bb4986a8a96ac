"""A client of the CDK's language server, as an editor is one: ``cdk lsp``."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from .deployed_stack import CDK
from .waiting import until


class LanguageServer:
    """The server of an app's folder. ``findings`` are its newest diagnostics, by the names of files."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._numbers, self._answers = folder, itertools.count(1), dict[int, Any]()
        self.findings: dict[str, list[dict[str, Any]]] = {}
        self._process = subprocess.Popen(
            [CDK, "lsp"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> LanguageServer:
        self._reader.start()
        self.ask("initialize", processId=None, rootUri=None, capabilities={}, initializationOptions={
            "applicationDir": str(self._folder),
        })  # fmt: skip
        self._send(method="initialized", params={})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        self._reader.join()

    def synthesize(self) -> None:
        """Have it run the app; done when the CDK CLI is."""
        self.ask("workspace/executeCommand", command="cdk.explorer.synthNow", arguments=[])

    def found(self, name: str, condition: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The findings in a file, once they meet a condition."""
        return until(lambda: self.findings.get(name, []), condition, seconds=60)

    def ask(self, method: str, **params: Any) -> Any:
        """A request's result."""
        number = next(self._numbers)
        self._send(id=number, method=method, params=params)
        until(lambda: number in self._answers, bool, seconds=120)
        return self._answers[number]

    def _send(self, **message: Any) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while header := self._process.stdout.readline():
            length = int(header.partition(b":")[2])
            self._process.stdout.readline()
            message = json.loads(self._process.stdout.read(length))
            if "method" not in message:
                self._answers[message["id"]] = message.get("result")
            elif "id" in message:
                self._send(id=message["id"], result=None)
            elif message["method"] == "textDocument/publishDiagnostics":
                params = message["params"]
                self.findings[params["uri"].rpartition("/")[2]] = params["diagnostics"]

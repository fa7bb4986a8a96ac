"""Requests to the light server's application, in this process."""

from __future__ import annotations

from typing import Any

from werkzeug.test import Client, TestResponse

from constructs_optim_local.light_server.application import Application


def ask(application: Application, path: str, request: Any) -> TestResponse:
    return Client(application).post(path, json=request)


def complete(application: Application, request: Any, path: str = "/v1/chat/completions") -> dict[str, Any]:
    response = ask(application, path, request)
    assert response.status_code == 200, response.text
    assert response.json is not None
    return response.json

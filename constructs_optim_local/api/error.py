"""Errors in the format of AWS's JSON protocols."""

from __future__ import annotations

import json
from typing import Any


class ApiError(Exception):
    """An operation's error; ``more`` are further members of the response."""

    def __init__(self, code: str, message: str, status: int = 400, **more: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.status, self._more = code, message, status, more

    def to_response(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        body = json.dumps({"__type": self.code, "message": self.message, "Message": self.message, **self._more})
        return (
            self.status,
            {"Content-Type": "application/x-amz-json-1.1", "x-amzn-ErrorType": self.code},
            body.encode(),
        )


def validation_error(message: str) -> ApiError:
    """Return the error for a request that violates the API's model or refers to a missing resource."""
    return ApiError("ValidationException", message)


def not_found(message: str) -> ApiError:
    """Return the error for a missing resource, for operations that declare ResourceNotFound."""
    return ApiError("ResourceNotFound", message)

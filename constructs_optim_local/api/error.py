"""An error as AWS's JSON protocols write it."""

from __future__ import annotations

import json
from typing import Any


class ApiError(Exception):
    """An error that an operation responds with; ``more`` are further members of the response."""

    def __init__(self, code: str, message: str, status: int = 400, **more: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.status, self._more = code, message, status, more

    def to_response(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        body = json.dumps({"__type": self.code, "message": self.message, "Message": self.message, **self._more})
        return (
            self.status,
            {"Content-Type": "application/x-amz-json-1.1", "x-amzn-ErrorType": self.code},
            body.encode(),
        )


def validation_error(message: str) -> ApiError:
    """A request that breaks the API's model or refers to what is not there."""
    return ApiError("ValidationException", message)


def not_found(message: str) -> ApiError:
    """A resource that does not exist, where the operation declares ResourceNotFound."""
    return ApiError("ResourceNotFound", message)

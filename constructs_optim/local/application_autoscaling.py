"""Application Auto Scaling: moto's implementation, behind requests that are checked against the API's model."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from moto.applicationautoscaling import models, responses
from moto.core.request import Request

from .api_error import ApiError
from .api_model import ApiModel
from .call_log import CallLog
from .faults import Faults

_HOST = "http://application-autoscaling.{region}.amazonaws.com/"


class ApplicationAutoScaling:
    """Application Auto Scaling, for any account and region that calls it."""

    name = "application-autoscaling"

    def __init__(self, faults: Faults, calls: CallLog) -> None:
        self.model = ApiModel(self.name)
        self._faults, self._calls = faults, calls
        # moto's list of dimensions is older than the API's, which every request is checked against first.
        known = self.model.enum("RegisterScalableTarget", "ScalableDimension")
        dimensions = Enum("ScalableDimensionValueSet", {value: value for value in known})
        for module in (models, responses):
            vars(module)["ScalableDimensionValueSet"] = dimensions

    def invoke(self, operation: str, request: dict[str, Any], *, account: str, region: str) -> dict[str, Any]:
        """Carry an operation out.

        Raises:
            ApiError: as AWS would answer.
        """
        try:
            self._faults.before(operation)
            self.model.check(operation, request)
            answer = self._answer(operation, request, account, region)
        except ApiError as error:
            self._calls.add(self.name, operation, request, error.code)
            raise
        self._calls.add(self.name, operation, request, "OK")
        return answer

    def _answer(self, operation: str, request: dict[str, Any], account: str, region: str) -> dict[str, Any]:
        url = _HOST.format(region=region)
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"{self.model.target_prefix}.{operation}",
            "x-moto-account-id": account,
        }
        call = Request.from_primitives("POST", url, headers, json.dumps(request).encode())
        try:
            answered = responses.ApplicationAutoScalingResponse.dispatch(call, url, headers)
        except NotImplementedError:
            raise ApiError("UnknownOperationException", f"moto has no {operation}") from None
        status, _, body = answered
        content = json.loads(body or "{}")
        if status >= 400:
            code = str(content.get("__type", "InternalFailure")).rpartition("#")[2]
            message = content.get("message") or content.get("Message") or ""
            # moto answers ValidationException, where the API reference says ObjectNotFoundException.
            missing = message.startswith(("No scalable target found", "No scaling policy found"))
            raise ApiError("ObjectNotFoundException" if missing else code, message, status)
        return content

"""The Service Quotas API with SageMaker's quotas of instances and of training jobs' numbers.

A quota that no test has set shows 20 instances but is not enforced. The codes are fictitious; AWS's look similar
("ml.g5.xlarge for endpoint usage" is L-1928E07B). Source: Service Quotas API reference, ListServiceQuotas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from .api.call_log import CallLog
from .api.error import ApiError
from .api.model import ApiModel
from .faults import Faults
from .sagemaker.hosting.fleets import hardware
from .sagemaker.quotas import ENDPOINT, OF_A_TRAINING_JOB, SPOT, TRAINING, Quotas, quota_name

_UNSET = 20.0
_MOST = 100


class ServiceQuotas:
    """The Service Quotas API, with SageMaker as its only service."""

    name = "servicequotas"

    def __init__(self, quotas: Quotas, faults: Faults, calls: CallLog) -> None:
        self.model = ApiModel("service-quotas")
        self._quotas, self._faults, self._calls = quotas, faults, calls

    def invoke(self, operation: str, request: dict[str, Any], *, account: str, region: str) -> dict[str, Any]:
        """Run an operation.

        Raises:
            ApiError: the error that AWS would return.
        """
        with self._calls.recorded(self.name, operation, request):
            self._faults.before(operation)
            self.model.check(operation, request)
            if operation not in ("GetServiceQuota", "ListServiceQuotas", "ListAWSDefaultServiceQuotas"):
                raise ApiError("UnknownOperationException", f"{operation} is not an operation of the local cloud")
            if request["ServiceCode"] != "sagemaker":
                raise _no_such(f"the service {request['ServiceCode']}")
            values = {} if operation == "ListAWSDefaultServiceQuotas" else self._quotas.to_json()
            quotas = [_quota(name, value, account, region) for name, value in _all(values).items()]
            if operation != "GetServiceQuota":
                return _page(quotas, request)
            code = request["QuotaCode"]
            for quota in quotas:
                if quota["QuotaCode"] == code:
                    return {"Quota": quota}
            raise _no_such(f"the quota {code}")


def _all(values: Mapping[str, float]) -> dict[str, float]:
    names = [quota_name(each, usage) for each in hardware() for usage in (ENDPOINT, TRAINING, SPOT)]
    defaults = {name: value for name, (value, _) in OF_A_TRAINING_JOB.items()}
    return dict.fromkeys(names, _UNSET) | defaults | dict(values)


def _quota(name: str, value: float, account: str, region: str) -> dict[str, Any]:
    code = f"L-{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}"
    return {
        "ServiceCode": "sagemaker",
        "ServiceName": "Amazon SageMaker",
        "QuotaArn": f"arn:aws:servicequotas:{region}:{account}:sagemaker/{code}",
        "QuotaCode": code,
        "QuotaName": name,
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _page(quotas: list[dict[str, Any]], request: Mapping[str, Any]) -> dict[str, Any]:
    token = request.get("NextToken") or "0"
    if not token.isdecimal() or int(token) > len(quotas):
        raise ApiError("InvalidPaginationTokenException", "The NextToken is invalid")
    start, most = int(token), request.get("MaxResults") or _MOST
    more = {"NextToken": str(start + most)} if start + most < len(quotas) else {}
    return {"Quotas": quotas[start : start + most], **more}


def _no_such(what: str) -> ApiError:
    return ApiError("NoSuchResourceException", f"The local cloud does not have {what}")

"""Bearer tokens for the OpenAI-compatible path of SageMaker endpoints, created from AWS credentials without a request.

Source: Amazon SageMaker AI developer guide, "Invoke endpoints with OpenAI-compatible APIs"; the token generator of
sagemaker-core, which creates the same tokens (``make conformance`` compares them).
"""

from __future__ import annotations

import base64

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

LONGEST_SECONDS = 43_200
"""A token is valid for at most 12 hours, and no longer than the credentials that signed it."""
_HOST = "sagemaker.amazonaws.com"


def bearer_token(credentials: ReadOnlyCredentials, region: str, seconds: int = LONGEST_SECONDS) -> str:
    """Return a token for the endpoints of a Region, for use as ``api_key`` of an OpenAI client.

    Args:
        credentials: botocore's, for example ``boto3.Session().get_credentials().get_frozen_credentials()``. Their
            owner needs ``sagemaker:InvokeEndpoint`` on the endpoint and ``sagemaker:CallWithBearerToken``.
        region: the endpoint's Region.
        seconds: how long the token is valid, 1 to 43,200.
    """
    request = AWSRequest("POST", f"https://{_HOST}/", headers={"host": _HOST}, params={"Action": "CallWithBearerToken"})
    SigV4QueryAuth(credentials, "sagemaker", region, expires=seconds).add_auth(request)
    signed = f"{str(request.url).removeprefix('https://')}&Version=1"
    return f"sagemaker-api-key-{base64.b64encode(signed.encode()).decode()}"

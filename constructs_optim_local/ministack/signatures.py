"""Checks of every request's signature. ministack checks only those of sessions, and only with ``AUTH=true``.

This module combines ministack's own functions: the keys that it has issued, the canonical request, and each service's
response to an unauthenticated request.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from constructs_optim_local.access.credentials import ACCOUNT, administrator

from .patches import replace

Response = tuple[int, dict[str, str], bytes]
Query = Mapping[str, list[str]]

_HASH = re.compile(r"[0-9a-f]{64}")
_LINK_SECONDS = 600


def is_signed(headers: Mapping[str, str], query: Query) -> bool:
    """Return whether a request has a signature, valid or not, in its header or URL."""
    named = {name.lower() for name in query}
    return headers.get("authorization", "").startswith("AWS") or not named.isdisjoint(
        {"x-amz-signature", "x-amz-credential", "awsaccesskeyid"}
    )


def needs_body(query: Query, headers: Mapping[str, str]) -> bool:
    """Return whether a request's signature can be verified only with its body, because it does not state its hash.

    S3's presigned URLs and the signatures of SigV2 do not cover the body.
    """
    authorization = headers.get("authorization", "")
    if _is_version_2(query, headers) or headers.get("x-amz-content-sha256"):
        return False
    is_presigned = not authorization.startswith("AWS4-HMAC-SHA256")
    return not (is_presigned and _first(query, "X-Amz-Credential").split("/")[3:4] == ["s3"])


def refusal(method: str, path: str, query: Query, headers: Mapping[str, str], body: bytes | None) -> Response | None:
    """Return the service's refusal of a request with an invalid signature; None if it is valid.

    Args:
        method: the HTTP method.
        path: the percent-encoded path.
        query: the decoded query.
        headers: values by lower-case name; repeated headers joined by commas.
        body: the whole body; None before it is read, for a refusal of what is wrong without it. That includes a wrong
            signature unless it ``needs_body``.
    """
    if not is_signed(headers, query):
        failure = "MissingAuthenticationToken", "Request is missing Authentication Token"
    else:
        failure = _failure(method, path, query, headers, body)
    if failure is None:
        return None
    return _respond(*failure, _service(method, path, query, headers, body or b""), headers)


def signed_for_owner(query: Query, method: str, url: str, body: bytes) -> Mapping[str, str]:
    """Return signed headers for a SageMaker request by the owner of a verified, signed query."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    from ministack.core import iam_evaluator
    from ministack.core.router import extract_access_key_id

    key, token = extract_access_key_id({}, dict(query)), _first(query, "X-Amz-Security-Token")
    found: Any = iam_evaluator.resolve_credential(key, _account_of(key), token)
    request = AWSRequest(method, url, data=body, headers={"Content-Type": "application/json"})
    region = _first(query, "X-Amz-Credential").split("/")[2]
    SigV4Auth(Credentials(key, found.secret_access_key, token or None), "sagemaker", region).add_auth(request)
    return dict(request.headers.items())


def sign_links() -> None:
    """Sign the URLs that Lambda returns for functions' and layers' code. Called once, before the first request.

    Source: Lambda API reference, ``FunctionCodeLocation``: "A presigned URL that you can use to download the deployment
    package", valid for ten minutes.
    """
    from ministack.services import lambda_svc

    code, layer = lambda_svc._presigned_code_url, lambda_svc._layer_content_url
    replace("services.lambda_svc._presigned_code_url", lambda name: _signed_link(code(name)))
    replace("services.lambda_svc._layer_content_url", lambda name, number: _signed_link(layer(name, number)))


def _failure(
    method: str, path: str, query: Query, headers: Mapping[str, str], body: bytes | None
) -> tuple[str, str] | None:
    """Return AWS's error code and message; None for a valid signature."""
    from ministack.core import iam_evaluator, sigv4
    from ministack.core.router import extract_access_key_id

    authorization = headers.get("authorization", "")
    in_header = authorization.startswith("AWS4-HMAC-SHA256")
    plain = dict(query)
    key = extract_access_key_id(dict(headers), plain)
    try:
        account = _account_of(key)
    except iam_evaluator.AmbiguousAccessKeyError:
        return "InvalidClientTokenId", "The security token included in the request is invalid."
    if _is_version_2(query, headers):
        request = iam_evaluator.SignedRequest(key, method, path, plain, dict(headers), sigv2=True, auth_path=path)
        checked = iam_evaluator._sigv2_check(request, account)
        return (checked.code, checked.message) if isinstance(checked, iam_evaluator.AuthError) else None
    signature = sigv4.parse_header_signature(headers) if in_header else sigv4.parse_query_signature(query)
    if isinstance(signature, tuple):
        return signature
    if signature.region_set is not None:
        return "UnsupportedSignature", "The request signature does not conform to AWS standards."
    if "host" not in signature.signed_headers.split(";"):
        return "SignatureDoesNotMatch", "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."
    if late := _late(signature, query, in_header):
        return late
    token = headers.get("x-amz-security-token", "") if in_header else _first(query, "X-Amz-Security-Token")
    found = iam_evaluator.resolve_credential(key, account, token)
    if isinstance(found, iam_evaluator.CredentialResolutionError):
        return found.code, found.message
    hashed = headers.get("x-amz-content-sha256", "")
    if body is None:
        if needs_body(query, headers):
            return None
        _, signed = sigv4.header_signing_documents(
            signature, method, path, plain, headers, b"", presigned=not in_header
        )
        scope = (signature.date_stamp, signature.region, signature.service)
        expected = sigv4.calculate_signature(found.secret_access_key, *scope, signed)
        is_right = sigv4.signatures_match(expected, signature.signature)
        return None if is_right else ("SignatureDoesNotMatch", sigv4.SIGNATURE_MISMATCH)
    if in_header and _HASH.fullmatch(hashed) and hashed != hashlib.sha256(body).hexdigest():
        return "SignatureDoesNotMatch", "The provided 'x-amz-content-sha256' header does not match what was computed."
    return sigv4.header_signature_failure(
        signature, found.secret_access_key, method, path, plain, headers, body, presigned=not in_header
    )


def _is_version_2(query: Query, headers: Mapping[str, str]) -> bool:
    """Return whether a request is signed by SigV2, boto3's default for presigned URLs of S3 in older Regions."""
    authorization = headers.get("authorization", "")
    return authorization.startswith("AWS ") or (not authorization and "AWSAccessKeyId" in query)


def _account_of(key: str) -> str:
    """Return the account of an access key."""
    from ministack.core import iam_evaluator
    from ministack.core.responses import _account_from_sts_session

    account = key if re.fullmatch(r"\d{12}", key) else _account_from_sts_session(key)
    return account or iam_evaluator.find_iam_access_key_account(key) or ACCOUNT


def _late(signature: Any, query: Query, in_header: bool) -> tuple[str, str] | None:
    """Return the error of an expired request. A presigned URL states its validity; others are valid for minutes."""
    from ministack.core import sigv4

    expires = _first(query, "X-Amz-Expires")
    if in_header or not expires:
        return sigv4.request_time_failure(signature)
    try:
        expired = sigv4.presigned_request_is_expired(signature.amz_date, expires)
    except ValueError:
        expired = True
    return ("RequestExpired", "Request has expired") if expired else None


def _first(query: Query, name: str) -> str:
    found = query.get(name) or query.get(name.lower()) or [""]
    return found[0]


def _service(method: str, path: str, query: Query, headers: Mapping[str, str], body: bytes) -> str:
    """Return the service of a request. It determines the format of the error response."""
    import ministack.app as ministack_app
    from ministack.core import router

    if scope := re.search(r"Credential=[^/]+/\d+/[^/]*/([^/]+)/", headers.get("authorization", "")):
        return scope[1]
    if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        # The body would say which of the services with this protocol. All of them respond alike.
        return "sts"
    decoded, sent, plain = unquote(path), dict(headers), dict(query)
    return router.detect_service(
        method, decoded, sent, ministack_app._routing_params(method, decoded, sent, body, plain)
    )


def _respond(code: str, message: str, service: str, headers: Mapping[str, str]) -> Response:
    from ministack.core import iam_actions, responses

    status, returned, content = iam_actions.access_denied_response(
        service, "", "", responses.new_uuid(), error_code=code, message=message, headers=dict(headers)
    )
    responses.fix_error_content_type(service, status, returned)
    return status, returned, content


def _signed_link(url: str) -> str:
    from botocore.auth import S3SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    from ministack.core.responses import get_account_id, get_region

    request = AWSRequest("GET", url.partition("?")[0])
    signer = S3SigV4QueryAuth(Credentials(*administrator(get_account_id()).values()), "s3", get_region(), _LINK_SECONDS)
    signer.add_auth(request)
    return str(request.url)

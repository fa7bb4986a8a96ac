"""Bearer tokens of SageMaker's OpenAI-compatible paths: a presigned request in base64.

Sources: developer guide, "Invoke endpoints with OpenAI-compatible APIs" ("How the token works"); the token generator of
sagemaker-core (``token_generator.py``), which signs ``POST
https://sagemaker.amazonaws.com/?Action=CallWithBearerToken`` and adds ``Version=1`` after signing.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from urllib.parse import parse_qs

HOST = "sagemaker.amazonaws.com"
_SCHEME, _PREFIX = "Bearer ", "sagemaker-api-key-"
_PATH = "/openai/v1/"
_ACTION, _SERVICE = "CallWithBearerToken", "sagemaker"
_LONGEST_SECONDS = 43_200


def is_openai(path: str) -> bool:
    """Return whether a path accepts bearer tokens."""
    return path.startswith("/endpoints/") and _PATH in path


def signed_query(headers: Mapping[str, str]) -> Mapping[str, list[str]] | None:
    """Return the signed query of a request's token; None without a token of SageMaker's."""
    token = headers.get("authorization", "").removeprefix(_SCHEME)
    if not token.startswith(_PREFIX):
        return None
    try:
        text = base64.b64decode(token.removeprefix(_PREFIX), validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return None
    address, _, raw = text.partition("?")
    query = parse_qs(raw, keep_blank_values=True)
    if address != f"{HOST}/" or query.pop("Version", None) != ["1"] or query.get("Action") != [_ACTION]:
        return None
    scope = query.get("X-Amz-Credential", [""])[0].split("/")
    expires = query.get("X-Amz-Expires", [""])[0]
    is_good = scope[3:4] == [_SERVICE] and expires.isdigit() and 0 < int(expires) <= _LONGEST_SECONDS
    return query if is_good else None

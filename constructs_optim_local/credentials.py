"""Who may call a local cloud: whoever holds the secret access key of this start of it.

An access key ID is an account, 12 digits, as ministack has it; one secret goes with all of them. It travels in the
environment of processes, which other users of the machine cannot read, and never in a command line, which they can.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets

ACCOUNT = "000000000000"
KEY_ID, SECRET_KEY, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"


def new_secret() -> str:
    """A secret access key: 40 characters, as AWS's have."""
    return secrets.token_hex(20)


def administrator(account: str) -> dict[str, str]:
    """The variables that have an SDK act as the administrator of an account of the cloud that this process serves."""
    return {KEY_ID: account, SECRET_KEY: os.environ[SECRET_KEY]}


def derived_secret(name: str) -> str:
    """A secret of a session that this cloud issues itself: the same for the same name, and to be guessed by nobody."""
    return hmac.new(os.environ[SECRET_KEY].encode(), name.encode(), hashlib.sha256).hexdigest()

"""Credentials of a local cloud: callers need the secret access key that each start generates.

As in ministack, the access key ID is the account ID (12 digits). All accounts share one secret. Processes get it in
their environment, which other users of the machine cannot read, and never in a command line, which they can.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
from typing import Any

import boto3
from botocore.config import Config

ACCOUNT = "000000000000"
KEY_ID, SECRET_KEY, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"


def new_secret() -> str:
    """Return a secret access key of 40 characters, the length of AWS's keys."""
    return secrets.token_hex(20)


def administrator(account: str) -> dict[str, str]:
    """Return variables that make an SDK act as the administrator of an account of this process's cloud."""
    return {KEY_ID: account, SECRET_KEY: os.environ[SECRET_KEY]}


def derived_secret(name: str) -> str:
    """Return the secret of a session that this cloud issues: deterministic for a name, but not guessable."""
    return hmac.new(os.environ[SECRET_KEY].encode(), name.encode(), hashlib.sha256).hexdigest()


# A separate user agent, because this process's environment sets the one that marks functions' calls.
_CONFIG = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, user_agent="constructs-optim-local")


class OwnClients:
    """One client for each service, account and Region. The environment has the cloud's URL."""

    def __init__(self) -> None:
        # A session makes one client at a time. Create clients on demand: most local clouds have one account.
        self._lock = threading.Lock()
        self._session = boto3.Session()
        self._made: dict[tuple[str, str, str], Any] = {}

    def client(self, service: str, account: str, region: str) -> Any:
        """Return a service's client that acts as an account's administrator."""
        with self._lock:
            key = (service, account, region)
            if key not in self._made:
                variables = administrator(account)
                self._made[key] = self._session.client(
                    service,
                    region_name=region,
                    aws_access_key_id=variables[KEY_ID],
                    aws_secret_access_key=variables[SECRET_KEY],
                    config=_CONFIG,
                )
            return self._made[key]

"""Who may call a local cloud: holders of the secret access key that each start generates.

An access key ID is an account, 12 digits, as ministack has it; one secret goes with all of them. It travels in the
environment of processes, which other users of the machine cannot read, and never in a command line, which they can.
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
    """A secret access key: 40 characters, as AWS's have."""
    return secrets.token_hex(20)


def administrator(account: str) -> dict[str, str]:
    """The variables that have an SDK act as the administrator of an account of the cloud that this process serves."""
    return {KEY_ID: account, SECRET_KEY: os.environ[SECRET_KEY]}


def derived_secret(name: str) -> str:
    """A secret of a session that this cloud issues itself: the same for the same name, and not guessable."""
    return hmac.new(os.environ[SECRET_KEY].encode(), name.encode(), hashlib.sha256).hexdigest()


# A separate user agent: calls of functions are recognized by theirs, which this process's environment sets.
_CONFIG = Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, user_agent="constructs-optim-local")


class OwnClients:
    """One client for each service, account and region; the environment says where the cloud listens."""

    def __init__(self) -> None:
        # A session makes one client at a time. None is made before it is needed: most local clouds have one account.
        self._lock = threading.Lock()
        self._session = boto3.Session()
        self._made: dict[tuple[str, str, str], Any] = {}

    def client(self, service: str, account: str, region: str) -> Any:
        """The client of a service that acts for an account, as its administrator."""
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

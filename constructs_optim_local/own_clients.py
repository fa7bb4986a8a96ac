"""Clients for this cloud's own services, for what acts in an account by itself: the jobs that SageMaker runs."""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config

from .credentials import KEY_ID, SECRET_KEY, administrator

# A user agent of its own, for calls of functions are told by theirs, which this process's environment gives.
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

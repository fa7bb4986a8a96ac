"""AWS clients that act under a role, as a service does that takes the role on."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

import boto3

from .authorization import Roles
from .credentials import KEY_ID, SECRET_KEY, TOKEN, administrator
from .own_clients import CLIENTS_CONFIG

Credentials = Mapping[str, str]


class RoleClients:
    """Makes clients of this cloud's own services; the environment says where they are."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        # A session makes one client at a time, and reads the services' descriptions once.
        self._lock = threading.Lock()
        self._session: boto3.Session | None = None

    def credentials(self, role_arn: str) -> Credentials:
        """The variables of a session that a service has under a role of its own account."""
        return self._roles.credentials(role_arn) or administrator(role_arn.split(":")[4])

    def assumed(self, credentials: Credentials, role_arn: str, region: str) -> Credentials:
        """The variables of a session under a further role, which those of ``credentials`` take on.

        Raises:
            botocore.exceptions.ClientError: they may not.
        """
        answer = self.client("sts", credentials, region).assume_role(RoleArn=role_arn, RoleSessionName="pipeline")
        found = answer["Credentials"]
        return {
            KEY_ID: found["AccessKeyId"],
            SECRET_KEY: found["SecretAccessKey"],
            TOKEN: found["SessionToken"],
        }

    def client(self, service: str, credentials: Credentials, region: str) -> Any:
        """A client that signs with ``credentials``."""
        with self._lock:
            if self._session is None:
                self._session = boto3.Session()
            session: Any = self._session
            return session.client(
                service,
                region_name=region,
                aws_access_key_id=credentials[KEY_ID],
                aws_secret_access_key=credentials[SECRET_KEY],
                aws_session_token=credentials.get(TOKEN),
                endpoint_url=os.environ.get("AWS_ENDPOINT_URL"),
                config=CLIENTS_CONFIG,
            )

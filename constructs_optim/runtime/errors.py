"""Errors that are reported in the stack's events, and the parts of AWS's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.exceptions import ClientError


DENIED = ("403", "AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
"""The error codes of missing permissions."""


class DeploymentError(Exception):
    """The deployment cannot go on; the message names the problem, its reason, and the next step."""


class InvalidEvent(DeploymentError):
    """The handler's input is invalid."""


class Superseded(DeploymentError):
    """CloudFormation has sent a later request for the same resource."""


class LeftToWatcher(DeploymentError):
    """The watcher of a state machine responds to the request."""


def code_of(error: ClientError) -> str:
    """AWS's error code, such as ``NoSuchBucket``; empty without one."""
    return error.response.get("Error", {}).get("Code", "")


def message_of(error: ClientError) -> str:
    """AWS's error message; empty without one."""
    return error.response.get("Error", {}).get("Message", "")

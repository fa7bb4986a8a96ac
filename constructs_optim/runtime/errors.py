"""Errors that stack events report, and the parts of AWS's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.exceptions import ClientError


DENIED = ("403", "AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
"""The error codes for missing permissions."""


class DeploymentError(Exception):
    """The deployment cannot continue. The message names the problem, its reason, and the next step."""


class InvalidEvent(DeploymentError):
    """The handler's input is invalid."""


class Superseded(DeploymentError):
    """CloudFormation has sent a later request for the same resource."""


class LeftToWatcher(DeploymentError):
    """A state machine's watcher responds to the request instead of the handler."""


def code_of(error: ClientError) -> str:
    """Return AWS's error code, such as ``NoSuchBucket``; empty if there is none."""
    return error.response.get("Error", {}).get("Code", "")


def message_of(error: ClientError) -> str:
    """Return AWS's error message; empty if there is none."""
    return error.response.get("Error", {}).get("Message", "")

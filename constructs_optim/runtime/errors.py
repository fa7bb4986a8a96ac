"""Errors that a handler turns into the reason in the stack's events, and the parts of AWS's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.exceptions import ClientError


class DeploymentError(Exception):
    """The deployment cannot go on; the message names the problem, its reason, and the next step."""


class InvalidEvent(DeploymentError):
    """What reached the handler does not have the form it must have."""


class Superseded(DeploymentError):
    """CloudFormation has sent a later request for the same resource: this one's time is over."""


def code_of(error: ClientError) -> str:
    """AWS's error code, such as ``NoSuchBucket``; empty where there is none."""
    return error.response.get("Error", {}).get("Code", "")


def message_of(error: ClientError) -> str:
    """AWS's error message; empty where there is none."""
    return error.response.get("Error", {}).get("Message", "")

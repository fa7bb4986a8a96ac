"""Errors a handler turns into the sentence a user reads in the stack's events, and what AWS says in its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.exceptions import ClientError


class DeploymentError(Exception):
    """The deployment cannot go on; the message says what happened, why, and what to do next."""


class InvalidEvent(DeploymentError):
    """What reached the handler does not have the form it must have."""


class Superseded(DeploymentError):
    """CloudFormation has sent a later request for the same resource: this one's time is over."""


def code_of(error: ClientError) -> str:
    """The code that AWS answered with, such as ``NoSuchBucket``; empty where it gave none."""
    return error.response.get("Error", {}).get("Code", "")


def message_of(error: ClientError) -> str:
    """What AWS answered in words; empty where it gave none."""
    return error.response.get("Error", {}).get("Message", "")

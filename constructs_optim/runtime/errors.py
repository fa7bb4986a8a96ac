"""Errors a handler turns into the sentence a user reads in the stack's events."""

from __future__ import annotations


class DeploymentError(Exception):
    """The deployment cannot go on; the message says what happened, why, and what to do next."""


class InvalidEvent(DeploymentError):
    """What reached the handler does not have the form it must have."""

"""What surrounds jobs and models in an app, as plain data, which rules check at synthesis: their roles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AssumedRole:
    """A role of the app that a service assumes.

    Attributes:
        path: the role's path in the construct tree.
        service: the service's principal, for example ``sagemaker.amazonaws.com``.
        principals: who may assume it, as its trust policy names them.
        is_trusted: whether the service may; None if a condition, or a value known only at deployment, decides.
    """

    path: str
    service: str
    principals: Sequence[str]
    is_trusted: bool | None

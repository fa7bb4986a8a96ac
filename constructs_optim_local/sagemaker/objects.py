"""The objects that jobs read and write, in S3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class Objects(Protocol):
    """Objects of any bucket, by their URIs, as one account may see and write them."""

    def put(self, job: str, objects: dict[str, bytes]) -> None:
        """Write the output of a job."""
        ...

    def read(self, uri: str) -> bytes | None:
        """The content of an object; None where there is none."""
        ...

    def uris(self, uri: str) -> list[str]:
        """The URIs of all objects that begin with ``uri``, in order; none where there is no such bucket."""
        ...

    def download(self, uri: str, path: Path) -> None:
        """Copy an object into a file."""
        ...

    def upload(self, path: Path, uri: str, key_id: str | None) -> None:
        """Copy a file into an object, encrypted with a KMS key or as the bucket asks for."""
        ...


ObjectsOf = Callable[[str, str], Objects]
"""The objects as the jobs of an account and region see them."""

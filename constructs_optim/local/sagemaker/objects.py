"""The objects that jobs read and write, in S3."""

from __future__ import annotations

from typing import Protocol


class Objects(Protocol):
    """Objects of any bucket, by their URIs."""

    def put(self, job: str, objects: dict[str, bytes]) -> None:
        """Write the output of a job."""
        ...

    def read(self, uri: str) -> bytes | None:
        """The content of an object; None where there is none."""
        ...

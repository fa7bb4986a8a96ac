"""The lock file of an app: the container images of its jobs and of its models, recorded on first use.

A newer release of the library may prefer newer images, which would give artifacts other keys and endpoints other
engines: the file keeps artifacts and containers as they are until the app's owner changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

LOCK_FILE = "optim.lock.json"
"""Its path in the app's folder, beside ``cdk.json``."""


class Lock(BaseModel, frozen=True, extra="forbid"):
    """Images by what they make or serve: ``awq`` and ``djl-inference:0.32.0-lmi14.0.0-cu126``.

    ``jobs`` has the images that jobs run in, ``servers`` those that models are served with. ``awq@<region>`` is for a
    region whose registry lacks that image.
    """

    version: Literal[1] = 1
    jobs: dict[str, str] = Field(default_factory=dict)
    servers: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Lock:
        """The file's content; an empty lock where there is no file. Raises ValueError when it is not a lock file."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, problem['loc'])) or 'the file'}: {problem['msg']}" for problem in error.errors()
            )
            raise ValueError(
                f"{path} is not a lock file of this release ({problems}). Restore it from version control, or delete "
                "it to choose the containers anew, which may rebuild artifacts and update endpoints"
            ) from None

    def adding(self, more: Lock) -> Lock:
        """A lock with the entries of another one as well; existing entries stay."""
        return Lock.of({**more.entries(), **self.entries()})

    def entries(self) -> dict[str, str]:
        """The images by ``jobs.<requirement>`` and ``servers.<requirement>``."""
        parts = {"jobs": self.jobs, "servers": self.servers}
        return {f"{part}.{name}": image for part, images in parts.items() for name, image in images.items()}

    @classmethod
    def of(cls, entries: Mapping[str, str]) -> Lock:
        """The lock with these :meth:`entries`."""
        parts: dict[str, dict[str, str]] = {"jobs": {}, "servers": {}}
        for entry, image in entries.items():
            part, _, name = entry.partition(".")
            parts[part][name] = image
        return cls(**parts)  # pyright: ignore[reportArgumentType]

    def write(self, path: Path) -> None:
        """Replace the file in one step."""
        content = Lock.of(dict(sorted(self.entries().items())))
        with NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False, encoding="utf-8") as file:
            file.write(content.model_dump_json(indent=2) + "\n")
        written = Path(file.name)
        written.chmod(0o644)
        written.replace(path)

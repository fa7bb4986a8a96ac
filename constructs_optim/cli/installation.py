"""How to install an extra of this package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pydantic import BaseModel


class _Folder(BaseModel):
    editable: bool = False


class _Origin(BaseModel):
    url: str = ""
    dir_info: _Folder | None = None


def installing(extra: str) -> str:
    """Return the command that installs an extra from where the package itself is from: a checkout, or the index.

    Source: "Recording the Direct URL Origin of installed distributions"
    (https://packaging.python.org/en/latest/specifications/direct-url/, 2026-11-27): ``dir_info`` if it is a folder.
    """
    try:
        recorded = distribution("constructs-optim").read_text("direct_url.json")
    except PackageNotFoundError:
        recorded = None
    origin = _Origin.model_validate_json(recorded or "{}")
    if origin.dir_info is None:
        return f'pip install "constructs-optim[{extra}]"'
    checkout = Path(url2pathname(urlsplit(origin.url).path))
    editable = "-e " if origin.dir_info.editable else ""
    # The local cloud is a distribution of its own in the same checkout.
    local = f'{editable}"{checkout / "constructs_optim_local"}" ' if extra == "local" else ""
    return f'pip install {local}{editable}"{checkout}[{extra}]"'

"""How to install an extra of this package."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


def installing(extra: str) -> str:
    """Return the command that installs an extra from where the package itself is from: a checkout, or the index.

    Source: "Recording the Direct URL Origin of installed distributions"
    (https://packaging.python.org/en/latest/specifications/direct-url/, 2026-11-27): ``dir_info`` if it is a folder.
    """
    try:
        origin = json.loads(distribution("constructs-optim").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    if "dir_info" not in origin:
        return f'pip install "constructs-optim[{extra}]"'
    checkout = Path(url2pathname(urlsplit(origin["url"]).path))
    editable = "-e " if origin["dir_info"].get("editable") else ""
    # The local cloud is a distribution of its own in the same checkout.
    local = f'{editable}"{checkout / "constructs_optim_local"}" ' if extra == "local" else ""
    return f'pip install {local}{editable}"{checkout}[{extra}]"'

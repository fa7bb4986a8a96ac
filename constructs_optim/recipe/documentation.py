"""The library's documentation, which messages link to."""

from __future__ import annotations

SITE = "https://constructs-optim.dev"


def page(name: str, section: str = "") -> str:
    """Return the URL of a page, for example ``rules``, or of a section of it."""
    return f"{SITE}/{name}/" + (f"#{section}" if section else "")

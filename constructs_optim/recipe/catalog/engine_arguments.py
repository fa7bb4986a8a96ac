"""The arguments of ``vllm serve`` in each release that AWS's vLLM containers have."""

from __future__ import annotations

from functools import cache

from . import load


@cache
def of_release(release: str | None) -> frozenset[str] | None:
    """The names of a release's arguments, with underscores; None where the release is not known."""
    data = load("engine_arguments")
    releases: list[str] = data["releases"]
    if release not in releases:
        return None
    order = {known: number for number, known in enumerate(releases)}
    rows: dict[str, dict[str, str]] = data["arguments"]
    return frozenset(
        name
        for name, row in rows.items()
        if order[row.get("since", releases[0])] <= order[release] <= order[row.get("until", releases[-1])]
    )

"""Why a recipe is where it is among the recommended ones, in words."""

from __future__ import annotations

from collections.abc import Sequence

from constructs_optim.recipe.memory import MemoryEstimate
from constructs_optim.recipe.plan_data import Plan

from .data import (
    AtBest,
    Benchmark,
    Fit,
    Wish,
)

# Said in other words: that the KV cache does not fit, and that no version is pinned.
_SAID = ("OPT006", "OPT051")


def performance(found: Benchmark | None, blended: float | None) -> str:
    """What somebody measured."""
    if found is None:
        return ""
    parts = [
        f"${blended:.2f} for a million tokens" if blended is not None else "",
        f"{found.tokens_per_second:,.0f} tokens/s" if found.tokens_per_second else "",
        f"first token after {found.time_to_first_token_ms:,.0f} ms" if found.time_to_first_token_ms else "",
    ]
    users = f"{found.concurrency} user{'' if found.concurrency == 1 else 's'}"
    return f"{', '.join(filter(None, parts))} with {users} ({found.source})"


def unranked(measured: Sequence[Benchmark], usable: Sequence[Benchmark], ambiguous: bool, wish: Wish) -> list[str]:
    """What is known and not ranked by, and why."""
    found: list[str] = []
    if not measured:
        found.append("No published benchmark.")
    elif not usable:
        users = sorted({each.concurrency for each in measured})
        found.append(f"measured with {', '.join(map(str, users))} users, and not with {wish.concurrency}")
    if ambiguous:
        found.append("there is an evaluation of its artifact which does not tell whether a draft was beside it")
    return found


def at_best_in_words(bound: AtBest | None) -> str:
    """What memory bandwidth allows."""
    if bound is None:
        return ""
    users = f"{bound.users} user{'' if bound.users == 1 else 's'}"
    price = f", ${bound.blended_price:.2f} or more for a million tokens" if bound.blended_price is not None else ""
    return f"at best {bound.milliseconds:.1f} ms to read its weights once, for a token of each of {users}{price}"


def fit_in_words(fit: Fit, memory: MemoryEstimate | None) -> str:
    """Whether the accelerators hold it."""
    if memory is None:
        return "whether it fits is not known: the catalog has no size of the model"
    cache = f"{memory.kv_cache_gb:.0f} GB of KV cache" if memory.kv_cache_gb is not None else "a KV cache"
    needs = f"{memory.fixed_gb:.0f} GB of weights and {cache} for {memory.batch_size} requests"
    if fit is Fit.fits:
        return f"fits: {needs} in {memory.available_gb:.0f} GB"
    return f"tight: {needs} do not fit {memory.available_gb:.0f} GB together, so requests wait for each other"


def tight_in_words() -> str:
    """The same of what is tight, whatever the figures."""
    return "tight: its usual requests do not fit the KV cache together, and wait for each other"


def jobs_in_words(made: Plan, jobs: Sequence[str]) -> str:
    """What has to be made before it can be served; ``jobs`` are those that have to run."""
    if not made.jobs:
        return "no job"
    if not jobs:
        return "no job: the artifact exists"
    return f"{len(jobs)} job{'' if len(jobs) == 1 else 's'} ({', '.join(jobs)})"


def warnings(made: Plan) -> list[str]:
    """What is worth a second look."""
    return [f"{rule}: {each.message}" for each in made.warnings if (rule := each.id.rpartition(":")[2]) not in _SAID]

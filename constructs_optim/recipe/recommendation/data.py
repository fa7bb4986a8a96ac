"""What a recommendation is made from, and what it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from constructs_optim.recipe import pricing
from constructs_optim.recipe.plan_data import MemoryEstimate, Plan


class Goal(StrEnum):
    """What a recommendation is about."""

    cost = "cost"
    latency = "latency"
    throughput = "throughput"


class Fit(StrEnum):
    """Whether the accelerators hold weights and KV cache, the weights alone, or nobody knows; in the order of ranks."""

    fits = "fits"
    unknown = "unknown"
    tight = "tight"


@dataclass(frozen=True)
class Benchmark:
    """What somebody measured. Figures are None where they are not known.

    ``time_to_first_token_ms`` is the median, ``tokens_per_second`` of all users. ``configuration`` is that of the
    model's hub document, None for another recipe's; ``served`` is the artifact's key or :attr:`Plan.container_key`,
    None for a configuration. ``with_channels``: whether a draft or heads were beside the model.
    """

    source: str
    instance_type: str
    concurrency: int
    time_to_first_token_ms: float | None = None
    tokens_per_second: float | None = None
    instance_count: int = 1
    configuration: str | None = None
    served: str | None = None
    with_channels: bool | None = None

    def blended_price(self, price_per_hour: float | None, discount: float) -> float | None:
        """Dollars for 1,000,000 tokens, three of them input for each of output; None without price or throughput."""
        if price_per_hour is None or not self.tokens_per_second:
            return None
        hourly = price_per_hour * self.instance_count
        return pricing.blended_price_per_million_tokens(hourly, self.tokens_per_second, discount)


@dataclass(frozen=True)
class AtBest:
    """What no server does better than: each pass of the model reads all its weights from the accelerators' memory.

    Without a draft, a pass takes ``milliseconds`` at least and brings one token for each of ``users``;
    ``blended_price`` is what 1,000,000 tokens then cost at least, None without a price.
    """

    milliseconds: float
    users: int
    blended_price: float | None


@dataclass(frozen=True)
class Baseline:
    """The model as it is, on the instance type where it costs least at best: what recipes are compared with.

    ``price_per_hour`` and ``at_best`` are None where they are not known.
    """

    instance_type: str
    memory: MemoryEstimate
    price_per_hour: float | None
    at_best: AtBest | None


@dataclass(frozen=True)
class Wish:
    """What the user wants. Benchmarks with another ``concurrency`` are not ranked by; None: each candidate's best.

    ``max_price`` is in dollars an hour of an instance, ``discount`` the share that a savings plan takes off.
    """

    goal: Goal = Goal.cost
    concurrency: int | None = None
    max_price: float | None = None
    discount: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """What is known beside the catalog: dollars an hour by instance type, benchmarks, keys of artifacts that exist.

    ``configurations`` of the model's hub document have the instance types it offers each on, none where it does not
    say.
    """

    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    benchmarks: Sequence[Benchmark] = ()
    artifacts: Collection[str] = frozenset()
    configurations: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])


@dataclass(frozen=True)
class Candidate:
    """A recipe that can be planned, with the benchmark it is ranked by. What is None is not known.

    ``jobs`` have to run: those whose artifacts exist do not. ``reasons`` are what is known beside the other fields.
    ``tested``: whether the vendor tested the instance family with all of its techniques.
    """

    techniques: tuple[str, ...]
    plan: Plan
    fit: Fit
    price_per_hour: float | None
    benchmark: Benchmark | None
    blended_price: float | None
    jobs: tuple[str, ...]
    reasons: tuple[str, ...]
    at_best: AtBest | None
    tested: bool


@dataclass(frozen=True)
class Exclusion:
    """Recipes that were left out for one reason: some techniques on some instance types."""

    techniques: tuple[str, ...]
    rule: str
    reason: str
    instance_types: tuple[str, ...]


@dataclass(frozen=True)
class Recommendation:
    """Candidates, best first, and what was left out.

    ``baseline`` is the model without any technique; None where it fits nowhere. ``elsewhere`` are published benchmarks
    of configurations and instance types that are no candidates: what the model does there, optimized or not, is worth a
    look all the same.
    """

    candidates: tuple[Candidate, ...]
    excluded: tuple[Exclusion, ...]
    elsewhere: tuple[Benchmark, ...] = ()
    baseline: Baseline | None = None

"""What a recommendation is made from and made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from constructs_optim.recipe import pricing
from constructs_optim.recipe.memory import MemoryEstimate
from constructs_optim.recipe.plan_data import Plan


class Goal(StrEnum):
    """What a recommendation is about."""

    cost = "cost"
    latency = "latency"
    throughput = "throughput"


class Fit(StrEnum):
    """Whether the accelerators hold it: weights and KV cache, the weights alone, or who knows."""

    fits = "fits"
    unknown = "unknown"
    tight = "tight"


@dataclass(frozen=True)
class Benchmark:
    """What somebody measured with so many users, and of what.

    Attributes:
        source: who, in words.
        instance_type: on what.
        concurrency: users at the same time.
        time_to_first_token_ms: median, in milliseconds; None where it is not known.
        tokens_per_second: output tokens of all users; None where it is not known.
        instance_count: instances that served them.
        configuration: the configuration of the model's hub document that was measured; None for another recipe's.
        served: the artifact's key, or :attr:`Plan.container_key` where there is none; None for a configuration.
        with_channels: whether a draft or heads were beside the model; None where it is not known.
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
        return pricing.blended_price_per_million_tokens(
            instance_price_per_hour=price_per_hour * self.instance_count,
            total_throughput=self.tokens_per_second,
            discount=discount,
        )


@dataclass(frozen=True)
class AtBest:
    """What no server does better than: each pass of the model reads all its weights from the accelerators' memory.

    Without a draft, a pass brings one token for each user. Attributes:
        milliseconds: of a pass, at least.
        users: at the same time, for whom the price is.
        blended_price: dollars for 1,000,000 tokens, at least; None without a price.
    """

    milliseconds: float
    users: int
    blended_price: float | None


@dataclass(frozen=True)
class Baseline:
    """The model as it is, on the instance type where it costs least at best: what recipes are compared with.

    Attributes:
        instance_type: on what.
        memory: what it takes.
        price_per_hour: of one instance, in dollars; None where it is not known.
        at_best: None where the memory's speed does not tell.
    """

    instance_type: str
    memory: MemoryEstimate
    price_per_hour: float | None
    at_best: AtBest | None


@dataclass(frozen=True)
class Wish:
    """What the user wants.

    Attributes:
        goal: what to rank by. Default: cost.
        concurrency: users at the same time; benchmarks with another number are not ranked by. Default: each
            candidate's own best.
        max_price: dollars an hour that an instance may cost. Default: any.
        discount: what a savings plan takes off, as a share. Default: 0.
    """

    goal: Goal = Goal.cost
    concurrency: int | None = None
    max_price: float | None = None
    discount: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """What is known beside the catalog.

    Attributes:
        prices: dollars an hour of one instance, by instance type.
        benchmarks: published and one's own.
        artifacts: keys of artifacts that exist.
        configurations: of the model's hub document, with the instance types it offers each on, none where it does not
            say; only ``lmi-optimized`` is tried where no configuration is known.
    """

    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    benchmarks: Sequence[Benchmark] = ()
    artifacts: Collection[str] = frozenset()
    configurations: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])


@dataclass(frozen=True)
class Candidate:
    """A recipe that can be planned.

    Attributes:
        techniques: as ``plan --technique`` takes them.
        plan: all that follows.
        fit: whether the accelerators hold it.
        price_per_hour: of one instance, in dollars; None where it is not known.
        benchmark: the one it is ranked by.
        blended_price: dollars for 1,000,000 tokens by that benchmark.
        jobs: that have to run; those whose artifacts exist do not.
        reasons: why it is where it is, in words.
        remarks: those of them that are more than fit, price and what is possible at best.
        at_best: what memory bandwidth allows; None where the model's size is not known.
        tested: whether the vendor tested the instance family with all of its techniques.
    """

    techniques: tuple[str, ...]
    plan: Plan
    fit: Fit
    price_per_hour: float | None
    benchmark: Benchmark | None
    blended_price: float | None
    jobs: tuple[str, ...]
    reasons: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    at_best: AtBest | None = None
    tested: bool = True

    @property
    def labels(self) -> tuple[str, ...]:
        """What people call the techniques."""
        return tuple(technique.label for technique in self.plan.techniques)


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

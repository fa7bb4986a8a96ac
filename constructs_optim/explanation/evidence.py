"""Facts beside templates: prices, what artifact stores hold, and how long jobs took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StoredArtifact:
    """An artifact in a store.

    Attributes:
        state: as ``constructs-optim artifacts`` prints it. ``ready`` and ``being made`` can be used; of all others, a
            new job has to run.
        detail: why it is in that state.
        made_at: when its job ended, in ISO 8601.
    """

    state: str
    detail: str
    made_at: str | None = None


@dataclass(frozen=True)
class PastJob:
    """A job that completed; ``steps`` are what it did, for instance ``ModelQuantizationConfig``."""

    model_id: str
    techniques: tuple[str, ...]
    steps: frozenset[str]
    instance_type: str
    seconds: float


@dataclass(frozen=True)
class StoreContents:
    """The artifacts of a store by their keys, and the jobs that produced them."""

    bucket: str
    artifacts: Mapping[str, StoredArtifact]
    past_jobs: Sequence[PastJob] = ()


@dataclass(frozen=True)
class Prices:
    """US dollars an hour of one instance by its type, and where the prices come from."""

    hosting: Mapping[str, float] = field(default_factory=dict[str, float])
    training: Mapping[str, float] = field(default_factory=dict[str, float])
    optimization: Mapping[str, float] = field(default_factory=dict[str, float])
    source: str = ""


@dataclass(frozen=True)
class StackEvidence:
    """Facts about one stack.

    ``stores`` are by the logical id of the job or reference that names the store; a store that is missing was not
    searched.
    """

    prices: Prices = field(default_factory=Prices)
    stores: Mapping[str, StoreContents] = field(default_factory=dict[str, StoreContents])

"""What is known besides templates: prices, what artifact stores hold, and how long jobs took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Stored(StrEnum):
    """How far an artifact has come, as ``constructs-optim artifacts`` tells it."""

    ready = "ready"
    being_made = "being made"
    failed = "failed"
    damaged = "damaged"
    half_made = "half-made"
    released = "released"


@dataclass(frozen=True)
class StoredArtifact:
    """What a store has of an artifact; ``made_at`` is in ISO 8601."""

    state: Stored
    detail: str
    made_at: str | None = None


@dataclass(frozen=True)
class PastJob:
    """A job that completed: what it was of, on what it ran, and for how long.

    ``parts`` tell what it did, for instance ``ModelQuantizationConfig``.
    """

    model_id: str
    techniques: tuple[str, ...]
    parts: frozenset[str]
    instance_type: str
    seconds: float


@dataclass(frozen=True)
class StoreContents:
    """A store that was looked into: its artifacts by key, and the jobs that made them."""

    bucket: str
    artifacts: Mapping[str, StoredArtifact]
    past_jobs: Sequence[PastJob] = ()


@dataclass(frozen=True)
class Prices:
    """US dollars an hour of one instance, by its type; ``source`` says whose prices they are."""

    hosting: Mapping[str, float] = field(default_factory=dict[str, float])
    training: Mapping[str, float] = field(default_factory=dict[str, float])
    optimization: Mapping[str, float] = field(default_factory=dict[str, float])
    source: str = ""


@dataclass(frozen=True)
class StackEvidence:
    """What is known for one stack.

    ``stores`` are by the logical id of the job or reference that names the store; one that is not there was not looked
    into.
    """

    prices: Prices = field(default_factory=Prices)
    stores: Mapping[str, StoreContents] = field(default_factory=dict[str, StoreContents])

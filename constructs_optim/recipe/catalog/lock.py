"""The lock file of an app: all choices that the library and its catalog made for it.

A newer release of the library may prefer newer images and other arguments, know other sizes of models, and make other
bytes of the same settings, which would give artifacts other keys and endpoints other engines: the file keeps artifacts
and containers as they are until the app's owner changes it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from .models import License, ModelRow, Tuning

LOCK_FILE = "optim.lock.json"
"""The lock file's path in the app's folder, next to ``cdk.json``."""
NO_COMMIT = "0" * 40
"""A placeholder in previews for a commit that is not recorded yet; no Git object has this name."""
PARTS = ("jobs", "servers", "models", "tuning", "contexts", "artifacts", "choices")
"""The parts of the file."""


class RecordedModel(BaseModel, frozen=True, extra="forbid"):
    """What ``constructs-optim lock --model`` has found out about a model; columns as of :class:`ModelRow`.

    ``revision`` is the commit of Hugging Face. ``license`` is the license's name there.
    """

    revision: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    gated: bool | None = None
    license: str | None = None
    parameters_billion: float | None = None
    weight_bits: int | None = None
    precision: str | None = None
    layers: int | None = None
    key_value_heads: int | None = None
    head_dimension: int | None = None
    hidden_size: int | None = None
    vocabulary_size: int | None = None
    tied_embeddings: bool | None = None
    attention_heads: int | None = None
    max_position: int | None = None
    full_attention_layers: int | None = None
    cache_bytes: int | None = None
    window_bytes: int | None = None
    window: int | None = None
    state_bytes: int | None = None
    stored_gb: float | None = None

    def row(self, name: str, known: ModelRow | None) -> ModelRow:
        """The catalog's row of the model, or one without a family, with what is recorded."""
        columns = self.model_dump(exclude_none=True, exclude={"revision", "license"})
        licence = {"license": License(self.license, f"https://huggingface.co/{name}")} if self.license else {}
        # What config.json says of the KV cache comes before the catalog's figure.
        counted = {"cache_bytes": None, "window_bytes": 0, "state_bytes": 0} if self.layers is not None else {}
        return replace(known or ModelRow(name, family=""), **{**counted, **columns}, **licence)


class RecordedArtifact(BaseModel, frozen=True, extra="forbid"):
    """The library's choices for a training job and its artifact.

    ``version`` is that of the code's output (``COPY_VERSION`` and the like), a part of the artifact's key.
    ``storage_gb`` is the job's least storage, by the size of the model.
    """

    version: int = Field(ge=1)
    storage_gb: int = Field(ge=0)


_Figure = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_MOST = 100_000


class RecordedPool(BaseModel, frozen=True, extra="forbid"):
    """An instance type of a choice, and how the model is prepared and served on it.

    ``techniques`` are as on the command line: ``quantization=awq``. ``copies_per_instance`` is above 1 where copies
    take a part of an instance; ``max_concurrent_requests`` is the limit of a batch, where ``server`` has one: None for
    the engine's own. ``price_per_hour`` is that of all instances, in US dollars; None: not known.
    """

    instance_type: str
    techniques: tuple[str, ...] = ()
    copies_per_instance: int = Field(default=1, ge=1)
    server: str | None = None
    max_concurrent_requests: int | None = Field(default=None, ge=1, le=_MOST)
    price_per_hour: _Figure | None = None


def _is_within(interval: tuple[float, float, float]) -> tuple[float, float, float]:
    value, low, high = interval
    if not low <= value <= high:
        raise ValueError("an interval is a value, a lower limit and an upper one")
    return interval


Interval = Annotated[tuple[_Figure, _Figure, _Figure], AfterValidator(_is_within)]
"""A value and its 90 % interval."""


class RecordedLatencies(BaseModel, frozen=True, extra="forbid"):
    """Expected mean latencies in milliseconds for a number of users, each with one request at a time."""

    time_to_first_token_ms: Interval
    inter_token_latency_ms: Interval


class RecordedForecast(BaseModel, frozen=True, extra="forbid"):
    """What is expected at ``rate`` requests a second: mean latencies in milliseconds, and the highest rate.

    ``probability`` is that of meeting the objectives, ``measurements`` the number that the forecast of the model family
    on the accelerator rests on. ``with_users`` is what an evaluation with so many users is compared with.
    """

    rate: _Figure
    time_to_first_token_ms: Interval
    inter_token_latency_ms: Interval
    requests_per_second: Interval
    probability: float = Field(ge=0, le=1)
    measurements: int = Field(ge=0)
    with_users: Mapping[int, RecordedLatencies] = Field(default_factory=dict[int, RecordedLatencies])


class RecordedChoice(BaseModel, frozen=True, extra="forbid"):
    """What ``constructs-optim recommend --update`` has chosen for a model and its objectives.

    ``version`` is that of a JumpStart model. ``objectives`` are the settings of :class:`Objectives` that are set.
    ``pools`` are the instance types, the preferred one first. ``copies`` take the requests of the objectives, on
    ``instances`` instances of the first pool; a copy is scaled by ``concurrency`` requests in flight.
    """

    model: str
    version: str | None = None
    objectives: Mapping[str, float | int | str]
    pools: tuple[RecordedPool, ...] = Field(min_length=1)
    copies: int = Field(ge=1, le=_MOST)
    instances: int = Field(ge=1, le=_MOST)
    concurrency: _Figure
    forecast: RecordedForecast
    date: dt.date

    @model_validator(mode="after")
    def _copies_are_placed(self) -> RecordedChoice:
        if self.copies > self.instances * self.pools[0].copies_per_instance:
            raise ValueError(f"{self.instances} instances have no room for {self.copies} copies")
        return self


Entry = str | int | RecordedModel | Tuning | RecordedArtifact | RecordedChoice
"""The name of an image, a length, what is known of a model, arguments, or what is decided of an artifact or chosen."""


class Lock(BaseModel, frozen=True, extra="forbid"):
    """Images by what they make or serve: ``awq`` and ``djl-inference:0.32.0-lmi14.0.0-cu126``.

    ``jobs`` has the images that jobs run in, ``servers`` those that models are served with. ``awq@<region>`` is for a
    Region whose registry lacks that image; ``vllm:0.30:awq`` is what a beginning of a version was taken for.
    ``models`` has what has been looked up of models, by ID or S3 URI.

    ``tuning`` has the engine's arguments by vLLM's recipe of a model, by ``<id>@<accelerator>``: also that there are
    none; ``<id>+<technique>`` has those of a technique. Files of earlier releases have ``<id>`` and ``<id>@<generation
    of GPUs>``. ``contexts`` has the longest request in tokens, by model, instance type and techniques, 0 for the
    model's own. ``artifacts`` is by the copied model, or by ``<model>:<techniques>`` of a job. ``choices`` is by
    ``<model> for <objectives>``.
    """

    version: Literal[1] = 1
    jobs: dict[str, str] = Field(default_factory=dict)
    servers: dict[str, str] = Field(default_factory=dict)
    models: dict[str, RecordedModel] = Field(default_factory=dict)
    tuning: dict[str, Tuning] = Field(default_factory=dict)
    contexts: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    artifacts: dict[str, RecordedArtifact] = Field(default_factory=dict)
    choices: dict[str, RecordedChoice] = Field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Lock:
        """The file's content; an empty lock where there is no file. Raises ValueError when it is not a lock file."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise ValueError(f"{path} cannot be read as a lock file: {error.strerror}") from None
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, problem['loc'])) or 'the file'}: {problem['msg']}" for problem in error.errors()
            )
            otherwise = (
                "the choices, and record them anew with `constructs-optim recommend --update`"
                if all(problem["loc"][:1] == ("choices",) for problem in error.errors())
                else "it to choose the containers anew, which may rebuild artifacts and update endpoints"
            )
            raise ValueError(
                f"{path} is not a lock file of this release ({problems}). Restore it from version control, or delete "
                f"{otherwise}"
            ) from None

    def row(self, name: str, known: ModelRow | None) -> ModelRow | None:
        """The catalog's row of a model with what is recorded of it; None if neither knows it."""
        recorded = self.models.get(name)
        return recorded.row(name, known) if recorded is not None else known

    def adding(self, more: Lock) -> Lock:
        """Return a lock that also has the entries of another one; existing entries stay."""
        return self.with_entries({**more.entries(), **self.entries()})

    def entries(self) -> dict[str, Entry]:
        """What is recorded, by ``<part>.<name>``."""
        return {f"{part}.{name}": entry for part in PARTS for name, entry in getattr(self, part).items()}

    @classmethod
    def with_entries(cls, entries: Mapping[str, Entry]) -> Lock:
        """The lock with these :meth:`entries`."""
        parts: dict[str, dict[str, Entry]] = {part: {} for part in PARTS}
        for entry, recorded in sorted(entries.items()):
            part, _, name = entry.partition(".")
            parts[part][name] = recorded
        return cls(**parts)  # pyright: ignore[reportArgumentType]

    def write(self, path: Path) -> None:
        """Replace the file in one step."""
        content = Lock.with_entries(self.entries())
        with NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False, encoding="utf-8") as file:
            parts = content.model_dump(mode="json", exclude_none=True)
            file.write(json.dumps({part: entries for part, entries in parts.items() if entries}, indent=2) + "\n")
        written = Path(file.name)
        written.chmod(0o644)
        written.replace(path)

"""An app's lock file: all choices that the library and its catalog made for the app.

A newer release of the library can prefer newer images and other arguments, know more about the size of models, and
write other bytes for the same settings, which would change artifact keys and the endpoints' engines. The lock file
keeps artifacts and containers as they are until the app's owner changes it.
"""

from __future__ import annotations

import codecs
import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator
from pydantic_core import from_json

from constructs_optim.recipe.errors import listed_mistakes, shortened

from .geometry import MOST_ARCHITECTURES, Name
from .models import License, ModelRow, Tuning
from .splits import Layer, Split, StoredQuantization

SCHEMA_VERSION = 1
"""The version of the file's form: another form has another version."""
LOCK_FILE = "optim.lock.json"
"""The lock file's path in the app's folder, next to ``cdk.json``."""
NO_COMMIT = "0" * 40
"""A placeholder in previews for a commit that is not recorded yet; no Git object has this name."""
PARTS = ("jobs", "servers", "models", "tuning", "contexts", "artifacts", "choices")
"""The sections of the file."""


# Far beyond any model; a larger number is a mistake, or would make arithmetic with it one.
_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
_Bytes = Annotated[int, Field(ge=0, le=1_000_000_000_000)]
_Size = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
# No EBS volume has more than 64 TiB (Amazon EBS user guide, "Provisioned IOPS SSD volumes").
_MOST_STORAGE_GB = 65_536
# The grammar of a repository and a tag, without a digest (github.com/distribution/reference, regexp.go).
_COMPONENT = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(rf"(?:{_COMPONENT}/)*{_COMPONENT}:\w[\w.-]{{0,127}}", re.ASCII)


def _is_image(name: str) -> str:
    if len(name) > 512 or not _IMAGE.fullmatch(name):
        raise ValueError("an image is a repository and a tag, such as djl-inference:0.32.0-lmi14.0.0-cu126")
    return name


_ImageName = Annotated[str, AfterValidator(_is_image)]


_Sentence = Annotated[str, Field(max_length=2_000)]


class RecordedFault(BaseModel, frozen=True, extra="forbid"):
    """Why no engine loads a model's files, and what works; ``load_format`` as in ``runtime.model_files.Fault``."""

    reason: _Sentence
    fix: _Sentence
    load_format: str | None = None


class RecordedModel(BaseModel, frozen=True, extra="forbid"):
    """The data that ``constructs-optim lock --model`` found about a model; columns as in ``ModelRow``.

    ``revision`` is the commit on Hugging Face, ``license`` the license's name there. ``fault`` tells why no engine
    loads the model's files. ``pickled`` is True if its weights are pickle files only, and ``has_tokenizer`` False if
    it has none; both are None otherwise.
    """

    fault: RecordedFault | None = None
    pickled: Literal[True] | None = None
    has_tokenizer: Literal[False] | None = None

    revision: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    gated: bool | None = None
    license: str | None = None
    architectures: Annotated[tuple[Name, ...], Field(max_length=MOST_ARCHITECTURES)] | None = None
    model_type: Name | None = None
    has_code: bool | None = None
    pools: bool | None = None
    labels: _Count | None = None
    is_bidirectional: bool | None = None
    quantization: StoredQuantization | None = None
    splits: Mapping[Layer, Split] | None = None
    rope_lacks: Annotated[tuple[Name, ...], Field(max_length=MOST_ARCHITECTURES)] | None = None
    attention: Annotated[str, Field(pattern="^[A-Za-z0-9 ]{1,40}$")] | None = None
    has_fp8_cache: bool | None = None
    parameters_billion: _Size | None = None
    weight_bits: int | None = Field(default=None, ge=1, le=64)
    precision: str | None = None
    layers: _Count | None = None
    key_value_heads: _Count | None = None
    head_dimension: _Count | None = None
    hidden_size: _Count | None = None
    vocabulary_size: _Count | None = None
    tied_embeddings: bool | None = None
    attention_heads: _Count | None = None
    max_position: _Count | None = None
    max_position_in_vllm_0_29: _Count | None = None
    max_position_in_sglang: _Count | None = None
    full_attention_layers: _Count | None = None
    cache_bytes: _Bytes | None = None
    window_bytes: _Bytes | None = None
    window: _Count | None = None
    state_bytes: _Bytes | None = None
    stored_gb: _Size | None = None

    @property
    def is_described(self) -> bool:
        """Whether a ``config.json`` says what the model is."""
        return bool(self.model_type or self.architectures or self.layers or self.has_code)

    def row(self, name: str, known: ModelRow | None) -> ModelRow:
        """Return the catalog's row of the model, or a new row without a family, updated with the recorded data."""
        own = {"revision", "license", "fault", "pickled", "has_tokenizer"}
        columns = {column: found for column, found in dict(self).items() if found is not None and column not in own}
        licensed = {"license": License(self.license, f"https://huggingface.co/{name}")} if self.license else {}
        # The KV cache that config.json describes overrides the catalog's figure.
        counted = {"cache_bytes": None, "window_bytes": 0, "state_bytes": 0} if self.layers is not None else {}
        # So do its positions.
        others = ("max_position_in_vllm_0_29", "max_position_in_sglang") if self.max_position is not None else ()
        return replace(
            known or ModelRow(name, family=""), **{**counted, **dict.fromkeys(others), **columns}, **licensed
        )


class RecordedArtifact(BaseModel, frozen=True, extra="forbid"):
    """The library's choices for a training job and its artifact.

    ``version`` is the version of the code's output (``COPY_VERSION`` and the like), a part of the artifact's key.
    ``storage_gb`` is the job's minimum storage, which depends on the size of the model.
    """

    version: int = Field(ge=1, le=1_000)
    storage_gb: int = Field(ge=0, le=_MOST_STORAGE_GB)


_Figure = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_MOST = 100_000


class RecordedPool(BaseModel, frozen=True, extra="forbid"):
    """An instance type of a choice, and how the model is prepared and served on it.

    ``techniques`` are written as on the command line: ``quantization=awq``. ``copies_per_instance`` is above 1 if each
    copy takes a part of an instance. ``max_concurrent_requests`` is the limit of a batch if ``server`` has one, or None
    for the engine's default. ``price_per_hour`` is the price of all instances in US dollars, or None if unknown.
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
        raise ValueError("an interval is a value, a lower limit and an upper limit, with the value between them")
    return interval


Interval = Annotated[tuple[_Figure, _Figure, _Figure], AfterValidator(_is_within)]
"""A value and its 90% interval."""


class RecordedLatencies(BaseModel, frozen=True, extra="forbid"):
    """Expected mean latencies in milliseconds for a number of users, each with one request at a time."""

    time_to_first_token_ms: Interval
    inter_token_latency_ms: Interval


class RecordedForecast(BaseModel, frozen=True, extra="forbid"):
    """The forecast for ``rate`` requests per second: mean latencies in milliseconds, and the highest sustainable rate.

    ``probability`` is the probability that the objectives are met. ``measurements`` is the number of measurements of
    the model family on the accelerator that the forecast uses. ``with_users`` has the latencies by number of users,
    for comparison with evaluations.
    """

    rate: _Figure
    time_to_first_token_ms: Interval
    inter_token_latency_ms: Interval
    requests_per_second: Interval
    probability: float = Field(ge=0, le=1)
    measurements: _Count
    with_users: Mapping[int, RecordedLatencies] = Field(default_factory=dict[int, RecordedLatencies])


class RecordedChoice(BaseModel, frozen=True, extra="forbid"):
    """The choice of ``constructs-optim recommend --update`` for a model and its objectives.

    ``version`` is a JumpStart model's version. ``objectives`` are the settings of ``Objectives`` that are set.
    ``pools`` are the instance types, the preferred one first. ``copies`` is the number of copies that the objectives
    need, ``instances`` the number of instances of the first pool that they need. Copies scale by ``concurrency``
    requests in flight per copy.
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
"""An image's name, a length, a model's data, engine arguments, or the choices for an artifact or a model."""


def _repeated(content: bytes) -> str | None:
    """Return a name that an object of the file has twice; None if there is none, or if the content is not JSON."""
    repeated: list[str] = []

    def noted(pairs: list[tuple[str, object]]) -> None:
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                repeated.append(name)
            names.add(name)

    try:
        # pydantic, whose parser reads the file, takes the last of them and does not tell.
        json.JSONDecoder(object_pairs_hook=noted).decode(content.decode())
    except (ValueError, RecursionError):
        return None
    return repeated[0] if repeated else None


def _another_version(content: bytes) -> str:
    """Return what a file of another version is, and what works; empty for this version, and for other content."""
    try:
        document = from_json(content)
    except ValueError:
        return ""
    version = cast("dict[str, object]", document).get("version") if isinstance(document, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version == SCHEMA_VERSION:
        return ""
    if version > SCHEMA_VERSION:
        fix = "upgrade constructs-optim, or restore the file of this release from version control"
        return f"a lock file of a newer release (version {version}, and this release reads {SCHEMA_VERSION}): {fix}"
    fix = "restore the file of this release from version control, or delete it to choose the containers anew"
    return f"a lock file of an older release (version {version}, and this release reads {SCHEMA_VERSION}): {fix}"


class LockFileError(ValueError):
    """A lock file that cannot be read; the message ends with what works, after a colon."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path


class Lock(BaseModel, frozen=True, extra="forbid"):
    """Images by what they make or serve: ``awq`` and ``djl-inference:0.32.0-lmi14.0.0-cu126``.

    ``jobs`` has the images that jobs run in, ``servers`` the images that serve models. ``awq@<region>`` is for a Region
    whose registry lacks the image of ``awq``. ``vllm:0.30:awq`` is the image for a version prefix. ``models`` has the
    recorded data of models, by ID or S3 URI.

    ``tuning`` has the engine arguments from vLLM's recipe of a model, by ``<id>@<accelerator>``, including empty
    entries for models without arguments. ``<id>+<technique>`` has the arguments of a technique. Files of earlier
    releases have ``<id>`` and ``<id>@<generation of GPUs>``. ``contexts`` has the longest request in tokens, by model,
    instance type and techniques; 0 means the model's own limit. ``artifacts`` is by the copied model, or by
    ``<model>:<techniques>`` of a job. ``choices`` is by ``<model> for <objectives>``.
    """

    version: Literal[1] = SCHEMA_VERSION
    jobs: dict[str, _ImageName] = Field(default_factory=dict)
    servers: dict[str, _ImageName] = Field(default_factory=dict)
    models: dict[str, RecordedModel] = Field(default_factory=dict)
    tuning: dict[str, Tuning] = Field(default_factory=dict)
    contexts: dict[str, _Count] = Field(default_factory=dict)
    artifacts: dict[str, RecordedArtifact] = Field(default_factory=dict)
    choices: dict[str, RecordedChoice] = Field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Lock:
        """Read the file, or return an empty lock if there is no file.

        Raises:
            LockFileError: if the file cannot be read or is not a lock file.
        """
        try:
            # Some editors put a byte order mark first.
            content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
            if problem := _another_version(content):
                raise LockFileError(path, f"is {problem}")
            lock = cls.model_validate_json(content)
            if (name := _repeated(content)) is not None:
                raise LockFileError(
                    path,
                    f'has "{shortened(name)}" twice in the same object, as after a merge that kept both sides, and '
                    "only one of them can count: delete one of them, or restore the file from version control",
                )
            return lock
        except FileNotFoundError:
            return cls()
        except OSError as error:
            fix = "restore it from version control, or make it readable"
            raise LockFileError(path, f"cannot be read as a lock file ({error.strerror}): {fix}") from None
        except ValidationError as error:
            otherwise = (
                "the choices, and record them anew with `constructs-optim recommend --update`"
                if all(problem["loc"][:1] == ("choices",) for problem in error.errors())
                else "it to choose the containers anew, which may rebuild artifacts and update endpoints"
            )
            raise LockFileError(
                path,
                f"is not a lock file of this release ({listed_mistakes(error)}): restore it from version control, or "
                f"delete {otherwise}",
            ) from None

    def row(self, name: str, known: ModelRow | None) -> ModelRow | None:
        """Return the catalog's row of a model, updated with the recorded data; None without either."""
        recorded = self.models.get(name)
        return recorded.row(name, known) if recorded is not None else known

    def adding(self, more: Lock) -> Lock:
        """Return a lock that also has the entries of another lock; existing entries stay."""
        return self.with_entries({**more.entries(), **self.entries()})

    def entries(self) -> dict[str, Entry]:
        """Return the recorded entries, by ``<part>.<name>``."""
        return {f"{part}.{name}": entry for part in PARTS for name, entry in getattr(self, part).items()}

    @classmethod
    def with_entries(cls, entries: Mapping[str, Entry]) -> Lock:
        """Return the lock with these ``entries``."""
        parts: dict[str, dict[str, Entry]] = {part: {} for part in PARTS}
        for entry, recorded in sorted(entries.items()):
            part, _, name = entry.partition(".")
            parts[part][name] = recorded
        return cls(**parts)  # pyright: ignore[reportArgumentType]

    def write(self, path: Path) -> None:
        """Replace the file atomically."""
        content = Lock.with_entries(self.entries())
        with NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False, encoding="utf-8") as file:
            parts = content.model_dump(mode="json", exclude_none=True)
            file.write(json.dumps({part: entries for part, entries in parts.items() if entries}, indent=2) + "\n")
        written = Path(file.name)
        written.chmod(0o644)
        written.replace(path)

"""What vLLM and SGLang load in each release in AWS's containers: architectures, quantization and formats of weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Literal, NamedTuple

from pydantic import BaseModel

from . import load
from .images import VLLM, ImageRow
from .splits import StoredQuantization

Task = Literal["generate", "embed", "embed_tokens", "classify", "classify_tokens", "reward", "transcribe", "draft"]
"""What a model does by default; a draft is a part of speculative decoding."""

_PARTS = (
    "architectures",
    "quantization",
    "plugins",
    "load_formats",
    "configurations",
    "without_float16",
    "features",
)
# The bits per weight of AWQ and GPTQ that vLLM loads; with gptq.py, GPTQ also with zero points.
_AWQ, _GPTQ = frozenset({"awq", "awq_marlin"}), frozenset({"gptq", "gptq_marlin"})
_AWQ_BITS, _GPTQ_BITS, _GPTQ_BITS_OF_ANY = 4, (4, 8), (2, 3, 4, 8)
_TITLES = {"vllm": "vLLM", "sglang": "SGLang"}


class Loaded(BaseModel, frozen=True, extra="forbid"):
    """A name that an engine loads; the catalog file's ``source`` describes the columns."""

    since: str | None = None
    until: str | None = None
    task: Task = "generate"
    encoder: bool = False
    inputs: tuple[str, ...] = ()
    plugin: str | None = None
    deprecated: tuple[str, str] | None = None
    least_capability: int | None = None
    dtypes: tuple[str, ...] = ()


class Table(NamedTuple):
    """The names that an engine loads in any of its ``releases``, and which of them the ``release`` loads."""

    rows: Mapping[str, Loaded]
    releases: tuple[str, ...]
    release: str

    def has(self, name: str) -> bool:
        """Return whether the release loads the name."""
        row = self.rows.get(name)
        return row is not None and self._is_within(row.since, row.until)

    def is_deprecated(self, name: str) -> bool:
        """Return whether the release loads the name only on request."""
        row = self.rows.get(name)
        return row is not None and row.deprecated is not None and self._is_within(*row.deprecated)

    def span(self, name: str) -> str:
        """Return the releases that load a name of the table, in words: ``0.26.0 and older``."""
        row = self.rows[name]
        match row.since, row.until:
            case None, None:
                return "every release"
            case str(since), None:
                return f"{since} and newer"
            case None, str(until):
                return f"{until} and older"
            case since, until:
                return f"{since}" if since == until else f"{since} to {until}"

    def _is_within(self, since: str | None, until: str | None) -> bool:
        order = self.releases.index
        return order(since or self.releases[0]) <= order(self.release) <= order(until or self.releases[-1])


class Transformers(BaseModel, frozen=True, extra="forbid"):
    """What vLLM runs with the code of transformers, in the ``release`` of transformers beside the release ``vllm``.

    ``pool`` are those that it runs to embed or classify, ``encoder_decoder`` the architectures of transformers with an
    encoder and a decoder, ``configurations`` the model types that it knows.
    """

    vllm: str
    release: str
    generate: frozenset[str]
    pool: frozenset[str]
    encoder_decoder: frozenset[str]
    configurations: frozenset[str]


class EngineModels(NamedTuple):
    """What a release of an engine loads.

    ``architectures`` are by their names in ``config.json``, ``quantization`` by ``quant_method`` there, ``plugins`` are
    the architectures that the engine leaves to a plugin, and ``load_formats`` the values of ``--load-format``.
    ``configurations`` are the model types whose configuration is the engine's own, ``without_float16`` those that it
    does not run in float16. ``features`` are what it loads beyond the least of a method of quantization.
    """

    title: str
    release: str
    architectures: Table
    quantization: Table
    plugins: Table
    load_formats: Table
    configurations: Table
    without_float16: Table
    features: Table

    def knows(self, model_type: str) -> bool:
        """Return whether the release, or its transformers, may know a model type of ``config.json``."""
        return self.configurations.has(model_type) or model_type in transformers().configurations

    def lacks(self, weights: StoredQuantization) -> Iterator[str]:
        """Yield what the release does not load of weights, although it has their method; in words, after the method.

        Source: vLLM, ``AutoGPTQConfig`` and ``AutoAWQConfig``; before 0.21, ``GPTQConfig`` of ``gptq.py``.
        """
        if self.title != _TITLES["vllm"]:
            return
        if weights.method in _AWQ and weights.bits not in (None, _AWQ_BITS):
            yield f"in {weights.bits} bits, only in {_AWQ_BITS}"
        if weights.activation_order and not self.features.has("activation_order"):
            yield "in the order of activations (desc_act or actorder)"
        if weights.method not in _GPTQ:
            return
        bits = _GPTQ_BITS_OF_ANY if self.features.has("gptq_any_scheme") else _GPTQ_BITS
        if weights.bits is not None and weights.bits not in bits:
            yield f"in {weights.bits} bits, only in {', '.join(map(str, bits))}"
        elif weights.symmetric is False and bits == _GPTQ_BITS:
            yield "with zero points (sym is false)"

    def is_draft(self, architecture: str) -> bool:
        """Return whether an architecture proposes tokens for another model."""
        row = self.architectures.rows.get(architecture)
        return row is not None and row.task == "draft"

    def loads(self, architectures: Collection[str]) -> bool | None:
        """Return whether the release loads a model with one of these architectures; None if that is unknown.

        It is unknown without architectures, and for those that another release than the one that was asked may run
        with the code of transformers.
        """
        if not architectures:
            return None
        if any(self.architectures.has(name) and not self.is_draft(name) for name in architectures):
            return True
        if self.title != _TITLES["vllm"]:
            return False
        bases = (base for name in architectures for base in _bases(name) if base != name)
        if any(self.architectures.has(base) and not self.is_draft(base) for base in bases):
            return True
        if (transformers().generate | transformers().pool).isdisjoint(architectures):
            return False
        return True if self.release == transformers().vllm else None


class _Suffix(NamedTuple):
    """The end of an architecture's name, and what vLLM does with a model whose name has it."""

    text: str
    runner: Literal["generate", "pooling"]
    convert: Literal["none", "embed", "classify"]


@cache
def _suffixes() -> tuple[_Suffix, ...]:
    return tuple(_Suffix(*row) for row in load("engine_models")["suffixes"])


def _suffix_of(architecture: str) -> _Suffix | None:
    return next((each for each in _suffixes() if architecture.endswith(each.text)), None)


def _bases(architecture: str) -> list[str]:
    """Return the names that vLLM looks for instead of one that it lacks (``_normalize_arch`` of ``registry.py``)."""
    suffix = _suffix_of(architecture)
    if suffix is None:
        return []
    return [architecture.removesuffix(suffix.text) + each.text for each in _suffixes()]


def task_of(architectures: Collection[str]) -> Task | None:
    """Return what vLLM does by default with a model that has one of these architectures; None if that is unknown.

    An architecture that vLLM's registry lacks does what the end of its name says (``_get_default_runner_type`` and
    ``_get_default_convert_type`` of ``config/model.py``).
    """
    rows = _rows("vllm")["architectures"]
    for name in architectures:
        if name in rows:
            return rows[name].task
        if (suffix := _suffix_of(name)) is not None:
            return "generate" if suffix.convert == "none" else suffix.convert
    return None


def is_encoder(architectures: Collection[str]) -> bool:
    """Return whether a model reads in both directions, and so keeps no keys and values of earlier tokens."""
    rows = _rows("vllm")["architectures"]
    return any(name in rows and rows[name].encoder for name in architectures)


@cache
def transformers() -> Transformers:
    """Return what vLLM runs with the code of transformers."""
    return Transformers.model_validate(load("engine_models")["transformers"])


@cache
def _rows(engine: str) -> dict[str, dict[str, Loaded]]:
    """Return the rows of an engine, which its releases share."""
    data = load("engine_models")["engines"][engine]
    return {part: {name: Loaded.model_validate(row) for name, row in data[part].items()} for part in _PARTS}


@cache
def of_release(engine: str, release: str | None) -> EngineModels | None:
    """Return what a release of ``vllm`` or ``sglang`` loads; None if the catalog does not know the release.

    A patch release loads what the other releases of its minor version load.
    """
    data = load("engine_models")["engines"].get(engine)
    if data is None or release is None:
        return None
    releases = tuple(data["releases"])
    minor = f"{release.rpartition('.')[0]}."
    known = release if release in releases else next((each for each in releases if each.startswith(minor)), None)
    if known is None:
        return None
    tables = {part: Table(rows, releases, known) for part, rows in _rows(engine).items()}
    return EngineModels(_TITLES[engine], release, **tables)


def of_image(image: ImageRow | None) -> EngineModels | None:
    """Return what the engine of an image loads; None for an image without a known engine."""
    if image is None or image.server is None:
        return None
    return of_release("vllm" if image.server in VLLM else image.server, image.engine)

"""Models of JumpStart and Hugging Face: their supported techniques, their size, and vLLM's recommended arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

from pydantic import BaseModel

from . import load, model_configs
from .splits import Layer, Split, StoredQuantization

# What a layer keeps of a request: a configuration that describes it replaces all of these columns.
_CACHE = ("layers", "cache_bytes", "window_bytes", "window", "state_bytes", "full_attention_layers")
_OF_KERNELS = re.compile(r"(?:moe|linear)_backend$|VLLM_(?:USE_DEEP_GEMM|USE_FLASHINFER_MOE|FLASHINFER_MOE)")


@dataclass(frozen=True)
class License:
    """The license of a model's weights. You must accept a gated model's license before you use the weights."""

    name: str
    url: str


class Tuning(BaseModel, frozen=True, extra="forbid"):
    """Arguments of ``vllm serve``, by name with underscores, and additional environment variables."""

    arguments: Mapping[str, Any] = {}
    environment: Mapping[str, str] = {}

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.arguments or self.environment)

    def without_kernels(self) -> Tuning:
        """Return the rest, without choices of kernels: they are for weights of one precision, on the GPUs that vLLM's
        recipe is about. The engine chooses others itself.
        """
        arguments = {name: value for name, value in self.arguments.items() if not _OF_KERNELS.match(name)}
        environment = {name: value for name, value in self.environment.items() if not _OF_KERNELS.match(name)}
        return Tuning(arguments=arguments, environment=environment)

    def __or__(self, other: Tuning) -> Tuning:
        """Return both combined; ``other`` wins where they differ."""
        return Tuning(
            arguments={**self.arguments, **other.arguments}, environment={**self.environment, **other.environment}
        )


class Checkpoint(NamedTuple):
    """A ready-made quantized checkpoint of a model, for example ``nvfp4``. ``memory_gb`` is the memory it needs."""

    model_id: str
    precision: str
    memory_gb: float


@dataclass(frozen=True)
class VllmRecipe:
    """The content of vLLM's own recipe for a model.

    ``engine`` is the lowest vLLM release that serves the model, or None. ``needs_code`` tells whether the recipe runs
    code from the model's repository. ``tuning`` applies to all accelerators, and ``generations`` adds to it for
    ``hopper``, ``blackwell`` or ``rtx_pro_6000``. ``speculation`` has values of ``--speculative-config``, the
    recommended one first; their ``model`` is a speculator on Hugging Face.
    """

    engine: str | None = None
    needs_code: bool = False
    tuning: Tuning = field(default_factory=Tuning)
    generations: Mapping[str, Tuning] = field(default_factory=dict[str, Tuning])
    speculation: tuple[Mapping[str, Any], ...] = ()

    def tuned(self, generation: str | None) -> Tuning:
        """Return the tuning for a generation of accelerators."""
        return self.tuning | self.generations.get(generation or "", Tuning())

    @property
    def release(self) -> tuple[int, ...]:
        """The lowest vLLM release that serves the model, as numbers; empty if it is unknown."""
        return tuple(map(int, re.findall(r"\d+", self.engine or "")))


@dataclass(frozen=True)
class ModelRow:
    """A model of JumpStart or Hugging Face. A column is None if the source does not give it. Columns that the catalog's
    rows do not state follow from the model's configuration, if ``model_configs.json`` has it.

    ``supports`` has the techniques that the sources list as supported, by their names there, and ``pre_compiled`` if
    SageMaker has the compiled artifact.

    ``architectures`` are the names in ``config.json`` by which engines choose the model's code, ``model_type`` the name
    by which they read it, and ``has_code`` whether the repository has its own code for that. ``pools`` tells whether it
    says how outputs become embeddings (Sentence Transformers), ``labels`` is the number of classes of a model that
    classifies. With ``is_bidirectional``, tokens attend to later ones too when the model pools. ``quantization`` is how
    its weights are quantized. ``splits`` has what tensor parallelism splits in each kind of layer.
    ``rope_lacks`` are the fields that the configuration's kind of rope scaling needs and that it lacks, or the kind
    itself if no engine knows it. ``attention`` is the kind of attention by its name in ``attention_backends.json``.
    With ``has_fp8_cache``, the KV cache is stored in FP8, as the configuration says.

    ``parameters_billion`` is the vendor's own figure, ``weight_bits`` the precision of the stored weights, and
    ``stored_gb`` their size if it does not follow from these two. The size of the KV cache follows from ``layers``,
    ``key_value_heads`` and ``head_dimension``; ``full_attention_layers`` keep all tokens of a request, the other
    layers only a short window. ``cache_bytes``, if present, overrides these three: it is the KV cache per token in
    half precision. ``window_bytes`` is the same for layers that keep only ``window`` tokens, and ``state_bytes``
    the state per request of layers with linear attention. The size of prediction heads and embeddings follows from
    ``hidden_size`` and ``vocabulary_size``; tied embeddings are one matrix, others two. ``attention_heads`` counts
    query heads, ``max_position`` is the maximum context length in tokens; ``max_position_in_vllm_0_29`` and
    ``max_position_in_sglang`` are present if these releases and this engine derive another one.
    ``active_parameters_billion`` is the number of parameters per token of a mixture of experts. ``memory_gb`` is
    the minimum accelerator memory in vLLM's recipe, a fifth more than the files. ``is_checkpoint`` marks a
    ready-made checkpoint of another model. ``precision`` is the precision of its weights in vLLM's recipes,
    ``bf16`` if they are not quantized, or None if unknown.
    """

    model_id: str
    family: str
    supports: frozenset[str] = frozenset()
    gated: bool | None = None
    license: License | None = None
    architectures: tuple[str, ...] = ()
    model_type: str | None = None
    has_code: bool = False
    pools: bool = False
    labels: int | None = None
    is_bidirectional: bool = False
    quantization: StoredQuantization | None = None
    splits: Mapping[Layer, Split] = field(default_factory=dict[Layer, Split])
    rope_lacks: tuple[str, ...] = ()
    attention: str | None = None
    has_fp8_cache: bool = False
    parameters_billion: float | None = None
    weight_bits: int = 16
    layers: int | None = None
    key_value_heads: int | None = None
    head_dimension: int | None = None
    hidden_size: int | None = None
    vocabulary_size: int | None = None
    tied_embeddings: bool = False
    attention_heads: int | None = None
    max_position: int | None = None
    max_position_in_vllm_0_29: int | None = None
    max_position_in_sglang: int | None = None
    full_attention_layers: int | None = None
    cache_bytes: int | None = None
    window_bytes: int = 0
    window: int = 0
    state_bytes: int = 0
    stored_gb: float | None = None
    active_parameters_billion: float | None = None
    memory_gb: float | None = None
    checkpoints: tuple[Checkpoint, ...] = ()
    recipe: VllmRecipe | None = None
    is_checkpoint: bool = False
    precision: str | None = None

    @cached_property
    def ready_made(self) -> list[str]:
        """The IDs of published checkpoints and speculators."""
        speculation = self.recipe.speculation if self.recipe is not None else ()
        speculators = [settings["model"] for settings in speculation if "model" in settings]
        return [*(checkpoint.model_id for checkpoint in self.checkpoints), *speculators]

    @property
    def key_value_bytes_a_token(self) -> int | None:
        """Bytes of KV cache per token in half precision: a key and a value in every layer."""
        if self.cache_bytes is not None:
            return self.cache_bytes + self.window_bytes
        if self.layers is None or self.key_value_heads is None or self.head_dimension is None:
            return None
        return 2 * 2 * self.layers * self.key_value_heads * self.head_dimension

    @property
    def embedding_parameters(self) -> int | None:
        """The number of weights in embeddings and the output layer, which quantization leaves in 16 bits."""
        if self.hidden_size is None or self.vocabulary_size is None:
            return None
        return (1 if self.tied_embeddings else 2) * self.hidden_size * self.vocabulary_size

    def context_bytes(self, tokens: int, step: int = 0) -> int | None:
        """Return the bytes of KV cache for one request of ``tokens``, in half precision; None if unknown.

        A layer with a window also keeps the tokens of a ``step`` of the server (vLLM, ``SlidingWindowSpec``).
        """
        if self.cache_bytes is not None:
            windows = self.window_bytes * min(tokens, self.window + step)
            return self.cache_bytes * tokens + windows + self.state_bytes
        if self.key_value_bytes_a_token is None or self.layers is None:
            return None
        return self.key_value_bytes_a_token * tokens * (self.full_attention_layers or self.layers) // self.layers


@cache
def by_id() -> dict[str, ModelRow]:
    """Return all known JumpStart models, with the changes of ``override``."""
    data = load("models")
    return {row["model_id"]: _row(row, data["families"]) for row in data["models"]}


@cache
def of_hugging_face() -> dict[str, ModelRow]:
    """Return all known Hugging Face models by ID, including ready-made checkpoints."""
    return {row.model_id: row for raw in load("huggingface_models")["models"] for row in _with_checkpoints(raw)}


@cache
def tuned_settings() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the engine arguments and of the variables in vLLM's recipes of all cataloged models."""
    recipes = [row.recipe for row in (*by_id().values(), *of_hugging_face().values()) if row.recipe is not None]
    tunings = [tuning for recipe in recipes for tuning in (recipe.tuning, *recipe.generations.values())]
    return (
        frozenset(name for tuning in tunings for name in tuning.arguments),
        frozenset(name for tuning in tunings for name in tuning.environment),
    )


@cache
def speculators() -> dict[str, Mapping[str, Any]]:
    """Return the ``--speculative-config`` of each speculator in vLLM's recipes, by its ID."""
    recipes = (row.recipe for row in of_hugging_face().values() if row.recipe is not None)
    named = (settings for recipe in recipes for settings in recipe.speculation if "model" in settings)
    return {settings["model"]: settings for settings in named}


def published_for(model_id: str) -> list[str]:
    """Return the cataloged models that Hugging Face files belong to: the model itself, or every model with these files
    as checkpoint or speculator. Empty if the catalog does not have the files.
    """
    rows = [row for row in of_hugging_face().values() if not row.is_checkpoint]
    return [row.model_id for row in rows if model_id in (row.model_id, *row.ready_made)]


def find(model_id: str) -> ModelRow | None:
    """Return the model with this ID, of JumpStart (``meta-textgeneration-llama-3-8b``) or Hugging Face."""
    return _rows(model_id).get(model_id)


def _rows(model_id: str) -> dict[str, ModelRow]:
    return of_hugging_face() if "/" in model_id else by_id()


def override(model_id: str, **columns: Any) -> ModelRow:
    """Add a model of your own, or change columns of a cataloged model, for the rest of the process.

    Args:
        model_id: the ID, of JumpStart or Hugging Face.
        **columns: columns of ``ModelRow``; all other columns keep their values.

    Raises:
        ValueError: if a column is unknown.
    """
    known = set(ModelRow.__dataclass_fields__) - {"model_id"}
    unknown = sorted(set(columns) - known)
    if unknown:
        raise ValueError(f"a model has no column {', '.join(unknown)}; it has {', '.join(sorted(known))}")
    if "supports" in columns:
        columns = {**columns, "supports": frozenset(columns["supports"])}
    rows = _rows(model_id)
    row = rows.get(model_id, ModelRow(model_id, family="custom"))
    rows[model_id] = replace(row, **columns)
    return rows[model_id]


def _row(raw: dict[str, Any], families: dict[str, list[str]]) -> ModelRow:
    columns = {**model_configs.columns(raw["model_id"]), **raw}
    supports = {*families[raw["family"]], *columns.pop("supports")} - {*columns.pop("lacks", ())}
    licensed = columns.pop("license")
    return ModelRow(**columns, supports=frozenset(supports), license=License(**licensed) if licensed else None)


def _with_checkpoints(raw: Mapping[str, Any]) -> list[ModelRow]:
    """Return the model, and each of its checkpoints as a separate model."""
    columns: dict[str, Any] = {**model_configs.columns(raw["model_id"]), **raw}
    columns["supports"] = frozenset(raw.get("supports", ()))
    checkpoints, tuning = columns.pop("checkpoints", ()), _tuning(columns)
    generations = _generations(columns)
    recipe = VllmRecipe(
        engine=columns.pop("engine", None),
        needs_code=columns.pop("needs_code", False),
        tuning=tuning,
        generations=generations,
        speculation=tuple(columns.pop("speculation", ())),
    )
    name = columns.pop("license", None)
    columns["license"] = License(name, f"https://huggingface.co/{columns['model_id']}") if name else None
    published = tuple(Checkpoint(each["model_id"], each["precision"], each["memory_gb"]) for each in checkpoints)
    model = ModelRow(**columns, checkpoints=published, recipe=recipe)
    return [model, *(_checkpoint(model, recipe, dict(each)) for each in checkpoints)]


def _checkpoint(model: ModelRow, recipe: VllmRecipe, columns: dict[str, Any]) -> ModelRow:
    more, base, generations = _generations(columns), recipe.tuning, recipe.generations
    if columns["precision"] != model.precision:
        base = base.without_kernels()
        generations = {name: tuning.without_kernels() for name, tuning in generations.items()}
    tuned = {name: generations.get(name, Tuning()) | more.get(name, Tuning()) for name in {*generations, *more}}
    own = model_configs.columns(columns["model_id"])
    if own.get("hidden_size") == model.hidden_size:
        # The vendor's figure stays, unless the checkpoint is another model.
        own.pop("parameters_billion", None)
    counted = dict.fromkeys(_CACHE, 0) | {"layers": None, "cache_bytes": None, "full_attention_layers": None}
    configured = {
        "stored_gb": None,
        "quantization": None,
        "has_fp8_cache": False,
        **(counted if own.keys() & {*_CACHE} else {}),
        **own,
    }
    stated = {name: columns[name] for name in ("model_id", "weight_bits", "precision", "memory_gb")}
    return replace(
        model,
        **{**configured, **stated},
        # A checkpoint has its own repository, with its own license.
        gated=None,
        license=None,
        checkpoints=(),
        is_checkpoint=True,
        recipe=replace(recipe, tuning=base | _tuning(columns), generations=tuned),
    )


def _tuning(columns: dict[str, Any]) -> Tuning:
    return Tuning(arguments=columns.pop("arguments", {}), environment=columns.pop("environment", {}))


def _generations(columns: dict[str, Any]) -> dict[str, Tuning]:
    return {name: _tuning(dict(each)) for name, each in columns.pop("generations", {}).items()}

"""Rules for what the engine loads: the architecture of the model and the quantization of its weights."""

# Users can pass values of other types, which rules report.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Callable, Iterator

from constructs_optim.recipe.catalog import engine_models, images, instances, weight_schemes
from constructs_optim.recipe.catalog.engine_models import EngineModels
from constructs_optim.recipe.catalog.model_config import WITH_POINT
from constructs_optim.recipe.catalog.splits import StoredQuantization
from constructs_optim.recipe.memory import BFLOAT16, engine_setting
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.parallelism import stored_quantization
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import VllmServer, by_name

from .quantization_rules import DEPRECATED
from .registry import Finding, rule

_SUPPORTED = "https://docs.vllm.ai/en/latest/models/supported_models/"
_QUANTIZED = "https://docs.vllm.ai/en/latest/features/quantization/"
_CODE = "https://docs.vllm.ai/en/latest/models/supported_models/#transformers"
_TRUSTED = "trust_remote_code"
_FLOAT32 = "float32"
# vLLM, _STR_DTYPE_TO_TORCH_DTYPE of config/model.py.
_NAMES = {"half": "float16", "float": _FLOAT32}
# Settings with which the engine reads another configuration.
_CHANGING = ("hf_overrides", "hf_config_path", "config_format")
# Developer guide, "Resources for using Hugging Face with Amazon SageMaker AI".
_OTHER_MODELS = (
    "AWS's Hugging Face inference container, which runs what transformers runs: HuggingFaceModel of the SageMaker "
    "Python SDK deploys it"
)
_OTHER_WEIGHTS = "the model's weights in 16 bits, FP8, or AWQ"


@rule("OPT289", _SUPPORTED)
def _the_engine_loads_the_architecture(recipe: Recipe) -> Iterator[Finding]:
    """The engine loads the model's architecture: the release of the engine in the container has no code for it."""
    row, known = recipe.model_row, engine_models.of_image(recipe.serving_image.image)
    if row is None or known is None or known.loads(recipe.architectures) is not False:
        return
    name, architectures, table = recipe.served_model.name, recipe.architectures, known.architectures
    named = " and ".join(architectures)
    if any(map(known.is_draft, architectures)):
        reason = f"{named} proposes tokens for another model, and serves no requests itself"
        yield Finding("model", name, "SpeculativeDecoding.speculator(model=...) of the model that it is for", reason)
        return
    reason = f"{known.title} {known.release} does not load {named}, the architecture of {name}"
    plugin = next((known.plugins.rows[each].plugin for each in architectures if known.plugins.has(each)), None)
    span = next((table.span(each) for each in architectures if each in table.rows), None)
    if plugin is not None:
        reason += f": it needs the plugin {plugin}, which AWS's containers do not have"
    elif span is not None:
        reason += f": {span} load it"
    elif not engine_models.transformers().encoder_decoder.isdisjoint(architectures):
        reason += ", which has an encoder and a decoder"
    server = _server_that(recipe, lambda models: models.loads(architectures))
    yield Finding("model", name, server or f"another model, or {_OTHER_MODELS}", reason)


def _server_that(recipe: Recipe, loads: Callable[[EngineModels], bool | None]) -> str:
    """Return the first server whose image loads something and serves the recipe, as it is declared; empty without."""
    # Other servers do not pool.
    servers = by_name() if recipe.task.generates else [VllmServer.name]
    for image in images.serving(recipe.serves, servers):
        known = engine_models.of_image(image)
        if known is not None and loads(known) and image.has_engine(recipe.least_engine):
            return f'Server.{image.server}(container_version="{image.tag}")'
    return ""


@rule("OPT290", _QUANTIZED)
def _the_engine_loads_the_quantization(recipe: Recipe) -> Iterator[Finding]:
    """The engine loads the quantization of the weights: the release of the engine in the container lacks the method, or
    does not load weights that are quantized in this way.
    """
    model, known = recipe.served_model, engine_models.of_image(recipe.serving_image.image)
    row = recipe.row(model) if isinstance(model, Model) else None
    stored = row.quantization if row is not None else None
    is_made = any(each.weight_bits is not None and each.ready_made is None for _, each in recipe.located_techniques)
    if stored is None or known is None or is_made:
        return
    engine, table = f"{known.title} {known.release}", known.quantization
    weights = f"the weights of {model.name}, which are quantized with {stored.method}"
    if not table.has(stored.method):
        yield _other_weights(recipe, f"{engine} does not load {weights}", stored)
        return
    all_lacking = [*known.lacks(stored)]
    for lacking in all_lacking:
        yield _other_weights(recipe, f"{engine} does not load {weights} {lacking}", stored)
    if table.is_deprecated(stored.method) and engine_setting(recipe, DEPRECATED) != "true":
        fix = f'environment={{"{recipe.variable(DEPRECATED)}": "true"}}, or {_OTHER_WEIGHTS}'
        yield Finding("model", model.name, fix, f"{engine} loads {weights}, only on request: the method is deprecated")
    least = (table.rows[stored.method].least_capability or 0) / 10
    if recipe.instance is not None and _is_older(recipe.instance, least):
        reason = f"{engine} loads {weights}, only on GPUs of compute capability {least:g} or newer"
        yield Finding("instance_type", recipe.instance_type, _newer(recipe.instance, least), reason)
        return
    schemes = weight_schemes.of_vllm()
    if known.title == "vLLM" and known.release == schemes.release and not all_lacking:
        yield from _unbuilt(recipe, stored, schemes, f"{engine} does not load {weights}")


def _unbuilt(
    recipe: Recipe, stored: StoredQuantization, schemes: weight_schemes.Schemes, reason: str
) -> Iterator[Finding]:
    """Yield the schemes for which the engine has no layers, or only on other GPUs."""
    if stored.unstated:
        lacking = f"{reason}: its quantization_config lacks {' and '.join(stored.unstated)}, which it needs"
        fix = f"{_OTHER_WEIGHTS}, or a config.json with all settings in its quantization_config"
        yield Finding("model", recipe.served_model.name, fix, lacking)
    for module in stored.torn:
        torn = f"{reason}: only some matrices of {module} are, or not in the same way, and the engine merges them"
        yield Finding("model", recipe.served_model.name, _OTHER_WEIGHTS, torn)
    instance, of_experts = recipe.instance, [(scheme, True) for scheme in stored.expert_schemes]
    of_others = [(scheme, False) for scheme in stored.schemes if scheme not in stored.expert_schemes]
    for scheme, has_experts in (*of_experts, *of_others):
        built = schemes.built(stored.method, scheme, experts=has_experts)
        if built == frozenset():
            where = " in experts" if has_experts and schemes.built(stored.method, scheme, experts=False) else ""
            yield Finding("model", recipe.served_model.name, _OTHER_WEIGHTS, f"{reason} ({scheme}){where}")
        elif built and instance is not None and instance.compute_capability in schemes.capabilities - built:
            *others, newest = [f"{capability:g}" for capability in sorted(built)]
            named = f"{', '.join(others)} or {newest}" if others else newest
            example = _such_as(instance, lambda each, suited=built: each.compute_capability in suited)
            fix = f"other GPUs{example}" if example else _OTHER_WEIGHTS
            only = f"{reason} ({scheme}) on its GPUs, only on those of compute capability {named}"
            yield Finding("instance_type", instance.name, fix, only)


def _newer(instance: instances.InstanceRow, least: float) -> str:
    """Return newer GPUs in words, with the smallest instance type that has them."""
    return f"newer GPUs{_such_as(instance, lambda row: not _is_older(row, least))}"


def _such_as(instance: instances.InstanceRow, suits: Callable[[instances.InstanceRow], bool]) -> str:
    """Return the smallest instance type that suits, and whose accelerators have as much memory together, in words."""
    found = instances.smallest_instead_of(instance, suits)
    return f", such as {found.name}" if found is not None else ""


def _other_weights(recipe: Recipe, reason: str, stored: StoredQuantization) -> Finding:
    """Return a finding about weights that the engine does not load. Another release of it may load them."""
    server = _server_that(recipe, lambda known: known.quantization.has(stored.method) and not any(known.lacks(stored)))
    fix = f"{_OTHER_WEIGHTS}{f', or {server}' if server else ''}"
    return Finding("model", recipe.served_model.name, fix, reason)


@rule("OPT291", _CODE)
def _the_engine_reads_the_configuration(recipe: Recipe) -> Iterator[Finding]:
    """The engine reads the model's configuration: neither it nor its transformers knows the model's type, which only
    code in the model's repository does, if anything.
    """
    row, model, known = recipe.model_row, recipe.served_model, engine_models.of_image(recipe.serving_image.image)
    if row is None or row.model_type is None or known is None or known.title != "vLLM" or known.knows(row.model_type):
        return
    is_changed = any(engine_setting(recipe, name) is not None for name in _CHANGING)
    if is_changed or (engine_setting(recipe, _TRUSTED) or "false").lower() != "false":
        return
    reason = (
        f"{known.title} {known.release} and transformers {engine_models.transformers().release} do not know "
        f"{row.model_type}, the type of {model.name}"
    )
    if row.has_code or (row.recipe is not None and row.recipe.needs_code):
        setting = (
            "allow_code=True"
            if model.kind == "huggingface"
            else f'environment={{"{recipe.variable(_TRUSTED)}": "true"}}'
        )
        fix = f"review the Python files in its repository, and then set {setting}: the engine runs them"
        yield Finding("model", model.name, fix, f"{reason}, and its repository has the code that reads it")
    else:
        yield Finding("model", model.name, "another model", reason)


def _is_older(row: instances.InstanceRow, least: float) -> bool:
    return row.compute_capability is not None and row.compute_capability < least


@rule("OPT292", "https://docs.vllm.ai/en/latest/configuration/engine_args/")
def _the_data_type_is_supported(recipe: Recipe) -> Iterator[Finding]:
    """The GPUs and the model support the data type: vLLM does not run some models in float16, GPUs older than compute
    capability 8.0 have no bfloat16, and vLLM loads few methods of quantization in float32, which is left.
    """
    row, instance, known = recipe.model_row, recipe.instance, engine_models.of_image(recipe.serving_image.image)
    name, chosen = recipe.variable("dtype"), recipe.variables.get(recipe.variable("dtype"))
    if known is None or instance is None:
        return
    if chosen is None or chosen == "auto":
        yield from _chosen_data_type(recipe, known, instance)
    elif chosen == "bfloat16" and _is_older(instance, BFLOAT16):
        fix = f"auto, or GPUs of compute capability {BFLOAT16:g} or newer"
        reason = f"{instance.name} ({instance.accelerator}) has no bfloat16"
        yield Finding(f"environment.{name}", chosen, fix, reason)
    elif chosen in ("float16", "half") and row is not None and known.without_float16.has(row.model_type or ""):
        reason = f"{known.title} {known.release} does not run {row.model_type} models in float16"
        yield Finding(f"environment.{name}", chosen, "auto", reason)
    elif (method := _not_loaded_in(recipe, known, data_type := _NAMES.get(chosen, chosen))) is not None:
        reason = f"{known.title} {known.release} does not load weights that are quantized with {method} in {data_type}"
        yield Finding(f"environment.{name}", chosen, "auto", reason)


def _chosen_data_type(recipe: Recipe, known: EngineModels, instance: instances.InstanceRow) -> Iterator[Finding]:
    """Yield a data type that the engine chooses for the GPUs, and in which it does not load the quantization.

    Without bfloat16 and float16, float32 is left (vLLM 0.30, _resolve_auto_dtype of config/model.py).
    """
    row = recipe.model_row
    if row is None or not _is_older(instance, BFLOAT16) or not known.without_float16.has(row.model_type or ""):
        return
    if (method := _not_loaded_in(recipe, known, _FLOAT32)) is not None:
        reason = (
            f"{known.title} {known.release} runs {row.model_type} models in float32 on {instance.name} "
            f"({instance.accelerator}), which has no bfloat16, and does not load weights that are quantized with "
            f"{method} in float32"
        )
        yield Finding("instance_type", instance.name, _newer(instance, BFLOAT16), reason)


def _not_loaded_in(recipe: Recipe, known: EngineModels, data_type: str) -> str | None:
    """Return the method of quantization of the served weights if the engine does not load it in a data type."""
    weights = stored_quantization(recipe)
    method = weights.method if weights is not None else (engine_setting(recipe, "quantization") or "").lower()
    rows = known.quantization.rows
    # Names of methods without a configuration of their own choose how weights are quantized while they are loaded.
    found = [rows[each].dtypes for each in (method, "online") if method in rows and each in rows and rows[each].dtypes]
    return method if found and data_type not in found[0] else None


@rule("OPT307", "https://docs.vllm.ai/en/latest/api/vllm/model_executor/layers/rotary_embedding/")
def _the_configuration_says_how_positions_are_encoded(recipe: Recipe) -> Iterator[Finding]:
    """The model's configuration says how positions are encoded: it has the numbers that the kind of rope scaling needs,
    such as the factor of YaRN.
    """
    row, known = recipe.model_row, engine_models.of_image(recipe.serving_image.image)
    if row is None or not row.rope_lacks or known is None or known.title != "vLLM":
        return
    if any(engine_setting(recipe, name) is not None for name in _CHANGING):
        return
    asks, engine = f"the configuration of {recipe.served_model.name} asks for", f"{known.title} {known.release}"
    fields = [name.partition(".") for name in row.rope_lacks]
    if unknown := [kind for kind, _, field in fields if not field]:
        reason = f"{asks} the rope scaling {' and '.join(unknown)}, which {engine} does not have"
        yield Finding("model", recipe.served_model.name, "another model", reason)
        return
    lacking = " and ".join(field.replace(WITH_POINT, WITH_POINT.replace("_", " ")) for _, _, field in fields)
    reason = (
        f"{asks} the rope scaling {fields[0][0]}, and has no number {lacking}, without which {engine} does not start"
    )
    fix = f"another model, or {lacking} in rope_scaling of its config.json"
    yield Finding("model", recipe.served_model.name, fix, reason)

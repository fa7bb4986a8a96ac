"""Rules for what the engine loads: the architecture of the model and the quantization of its weights."""

# Users can pass values of other types, which rules report.
# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Callable, Iterator

from constructs_optim.recipe.catalog import engine_models, images, instances
from constructs_optim.recipe.catalog.engine_models import EngineModels
from constructs_optim.recipe.memory import engine_setting
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.servers import by_name

from .registry import Finding, rule

_SUPPORTED = "https://docs.vllm.ai/en/latest/models/supported_models/"
_QUANTIZED = "https://docs.vllm.ai/en/latest/features/quantization/"
_DEPRECATED = "allow_deprecated_quantization"
_OTHER_WEIGHTS = "the model's weights in 16 bits, FP8, or AWQ"


@rule("OPT289", _SUPPORTED)
def _the_engine_loads_the_architecture(recipe: Recipe) -> Iterator[Finding]:
    """The engine loads the model's architecture: the release of the engine in the container has no code for it."""
    row, known = recipe.model_row, engine_models.of_image(recipe.serving_image.image)
    if row is None or known is None or known.loads(row.architectures) is not False:
        return
    name, architectures, table = recipe.served_model.name, row.architectures, known.architectures
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
    yield Finding("model", name, server or "another model", reason)


def _server_that(recipe: Recipe, loads: Callable[[EngineModels], bool | None]) -> str:
    """Return the first server whose image loads something and serves the recipe, as it is declared; empty without."""
    for image in images.serving(recipe.serves, by_name()):
        known = engine_models.of_image(image)
        if known is not None and loads(known) and image.has_engine(recipe.least_engine):
            return f'Server.{image.server}(container_version="{image.tag}")'
    return ""


@rule("OPT290", _QUANTIZED)
def _the_engine_loads_the_quantization(recipe: Recipe) -> Iterator[Finding]:
    """The engine loads the quantization of the weights: the release of the engine in the container lacks the method."""
    model, known = recipe.served_model, engine_models.of_image(recipe.serving_image.image)
    row = recipe.row(model) if isinstance(model, Model) else None
    method = row.quantization if row is not None else None
    is_made = any(each.weight_bits is not None and each.ready_made is None for _, each in recipe.located_techniques)
    if method is None or known is None or is_made:
        return
    engine, table = f"{known.title} {known.release}", known.quantization
    weights = f"the weights of {model.name}, which are quantized with {method}"
    if not table.has(method):
        reason = f"{engine} does not load {weights}"
        server = _server_that(recipe, lambda models: models.quantization.has(method))
        yield Finding("model", model.name, f"{_OTHER_WEIGHTS}{f', or {server}' if server else ''}", reason)
        return
    if table.is_deprecated(method) and engine_setting(recipe, _DEPRECATED) != "true":
        fix = f'environment={{"{recipe.variable(_DEPRECATED)}": "true"}}, or {_OTHER_WEIGHTS}'
        yield Finding("model", model.name, fix, f"{engine} loads {weights}, only on request: the method is deprecated")
    least = (table.rows[method].least_capability or 0) / 10
    if recipe.instance is not None and _is_older(recipe.instance, least):
        memory = recipe.instance.total_accelerator_memory_gb
        newer = (
            row.name
            for row in instances.by_size()
            if row.hosts_endpoints and row.total_accelerator_memory_gb >= memory and not _is_older(row, least)
        )
        reason = f"{engine} loads {weights}, only on GPUs of compute capability {least:g} or newer"
        yield Finding("instance_type", recipe.instance_type, f"newer GPUs, such as {next(newer)}", reason)


def _is_older(row: instances.InstanceRow, least: float) -> bool:
    return row.compute_capability is not None and row.compute_capability < least

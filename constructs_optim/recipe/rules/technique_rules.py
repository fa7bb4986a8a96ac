"""Rules for techniques: their combinations, and the models that they support."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.recipe import TRAINABLE, Recipe
from constructs_optim.recipe.settings import Settings, UnknownSettingsError
from constructs_optim.recipe.techniques import REGISTRY, SpeculativeDecoding, Technique
from constructs_optim.recipe.techniques.parsing import call_of, in_code, parse

from .registry import GUIDE, Finding, rule

_TENSORRT = "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/user_guides/trt_llm_user_guide.html"
_WHOLE = 16
_NOT_QUANTIZED = "bf16"


@rule("OPT020", f"{GUIDE}model-optimize.html")
def _techniques_are_techniques(recipe: Recipe) -> Iterator[Finding]:
    """`techniques` is a list of techniques: a recipe is a model with a list of techniques, which can be empty."""
    techniques = recipe.techniques
    if isinstance(techniques, str) or not isinstance(techniques, Sequence):
        named = techniques.display_name() if isinstance(techniques, Technique) else techniques
        meant = in_code(named) if isinstance(named, str) else None
        fix = f"techniques=[{meant or 'Quantization.awq()'}]"
        yield Finding("techniques", techniques, fix, "techniques is a list")
        return
    for index, technique in enumerate(techniques):
        if not isinstance(technique, Technique):
            reason, fix = _reason_and_fix(technique)
            yield Finding(f"techniques[{index}]", technique, fix, reason)


def _reason_and_fix(value: object) -> tuple[str, str]:
    """Return why a value is not a technique, and what to write instead."""
    if isinstance(value, str):
        try:
            parse(value)
        except UnknownSettingsError as error:
            return error.reason, str(error)
        return "this is a string, not a technique", f"in Python: {in_code(value)}"
    if isinstance(value, type) and issubclass(value, Technique):
        return "this is the class of a technique, not an instance", call_of(value)
    calls = [
        call_of(technique)
        for technique in _registered()
        if isinstance(value, type) and technique.display_name().startswith(f"{value.__name__}.")
    ]
    if calls:
        return "this is a group of techniques", f"one of {', '.join(calls)}"
    return "this is not a technique", "techniques=[Quantization.awq()]"


def _registered() -> list[type[Technique]]:
    return [technique for by_name in REGISTRY.values() for technique in by_name.values()]


@rule("OPT021", Technique.rule_link)
def _technique_settings_are_valid(_: Settings) -> Iterator[Finding]:
    """A technique's settings are known and in range: the technique's job and container do not support others."""
    # The technique's class enforces this rule.
    yield from ()


@rule("OPT090", Settings.rule_link)
def _settings_are_valid(_: Settings) -> Iterator[Finding]:
    """A setting is known, has the right type and is in range: an invalid setting would be ignored, or fail later."""
    # The class of the settings enforces this rule.
    yield from ()


@rule("OPT022", f"{GUIDE}model-optimize.html")
def _a_kind_is_applied_once(recipe: Recipe) -> Iterator[Finding]:
    """A recipe has at most one technique of each kind: no job can apply a second technique of the same kind to the
    output of the first.
    """
    first: dict[str, tuple[str, Technique]] = {}
    for location, technique in recipe.located_techniques:
        before, other = first.setdefault(technique.kind, (location, technique))
        if before != location:
            kind = technique.kind.replace("_", " ")
            has_job = technique.job_stage is not None or other.job_stage is not None
            reason = None if has_job else f"the server supports only one {kind}, and {other.name} is already one"
            yield Finding(
                location, technique.name, f"keep only one {technique.kind} technique: {before} or this one", reason
            )


@rule("OPT023", f"{GUIDE}optimization-supported-models.html")
def _the_model_supports_techniques(recipe: Recipe) -> Iterator[Finding]:
    """The model supports the technique: this technique does not work with the model."""
    row = recipe.model_row
    for location, technique in recipe.located_techniques if row is not None else ():
        assert row is not None  # noqa: S101 - for the type checker
        # The family of a model that only the lock file or the process knows is unknown.
        is_known = row.family not in ("", "custom") or bool(row.supports)
        trains = technique.support == TRAINABLE
        if trains and (row.weight_bits < _WHOLE or (is_known and TRAINABLE not in row.supports)):
            reason = f"{technique.name} needs a 16-bit Llama or Mistral model, which {row.model_id} is not"
            fix = "a model from `constructs-optim catalog models --supports trainable`"
        elif _quantizes(technique) and row.weight_bits < _WHOLE and technique.support not in row.supports:
            reason = f"the weights of {row.model_id} are already quantized to {row.weight_bits} bits"
            fix = "the model without this technique, or a 16-bit model"
        elif recipe.hub_model is not None and technique.of_hub and technique.support not in row.supports:
            published = "pre-optimized configuration" if technique.hub_configuration else technique.label
            reason = f"JumpStart publishes no {published} for {row.model_id}"
            fix = f"a model from `constructs-optim catalog models --supports {technique.support}`"
        else:
            continue
        yield Finding(location, technique.name, fix, reason)


@rule("OPT071", "https://docs.vllm.ai/en/latest/features/quantization/")
def _checkpoints_are_of_their_technique(recipe: Recipe) -> Iterator[Finding]:
    """A ready-made checkpoint matches its technique: memory, container and instance suit only its own precision."""
    for location, technique in recipe.located_techniques:
        row = recipe.row(technique.ready_made) if technique.ready_made is not None else None
        if row is None or row.precision is None or row.precision in technique.precisions:
            continue
        if row.precision == _NOT_QUANTIZED:
            own = _own_checkpoints(recipe, technique)
            fix = f"{own}, or leave checkpoint out to create it with a job"
            reason = f"the weights of {row.model_id} are not quantized ({row.precision.upper()})"
            yield Finding(f"{location}.checkpoint", row.model_id, fix.removeprefix(", or "), reason)
            continue
        able = [other.display_name() for other in _registered() if row.precision in other.precisions]
        # A precision without a technique needs none: the engine reads it from config.json.
        fix = (
            " or ".join(f"{name}(checkpoint=...)" for name in able)
            or f"{row.model_id} as the model, without {technique.display_name()}"
        )
        reason = f"the weights of {row.model_id} are {row.precision.upper()}, not those of {technique.display_name()}"
        yield Finding(f"{location}.checkpoint", row.model_id, fix, reason)


@rule("OPT072", "https://docs.vllm.ai/en/latest/features/speculative_decoding/")
def _ready_made_files_are_of_the_model(recipe: Recipe) -> Iterator[Finding]:
    """Checkpoints and speculators belong to the model: files of another model produce its output, or useless drafts."""
    for each in _of_other_models(recipe):
        if each.is_certain:
            yield each.finding


@rule("OPT073", "https://docs.vllm.ai/en/latest/features/speculative_decoding/", advisory=True)
def _ready_made_files_are_known_to_be_of_the_model(recipe: Recipe) -> Iterator[Finding]:
    """Checkpoints and speculators are known to belong to the model: the catalog has no data on these files."""
    for each in _of_other_models(recipe):
        if not each.is_certain:
            yield each.finding


class _OfAnother(NamedTuple):
    finding: Finding
    is_certain: bool


def _of_other_models(recipe: Recipe) -> Iterator[_OfAnother]:
    """Find checkpoints and speculators that belong to another model, according to the catalog or config.json."""
    model = recipe.model
    if not isinstance(model, Model):
        return
    row = recipe.row(model)
    for location, technique in recipe.located_techniques:
        if technique.ready_made is not None:
            yield from _checkpoint_of_another(recipe, model, f"{location}.checkpoint", technique)
        elif isinstance(technique, SpeculativeDecoding.speculator) and row is not None:
            yield from _speculator_of_another(recipe, row, f"{location}.model", technique.model)


def _checkpoint_of_another(recipe: Recipe, model: Model, location: str, technique: Technique) -> Iterator[_OfAnother]:
    assert technique.ready_made is not None  # noqa: S101 - for the type checker
    name, originals = technique.ready_made.name, models.published_for(model.name)
    published_for = models.published_for(name)
    own = _own_checkpoints(recipe, technique) or f"a checkpoint of {model.name}"
    if published_for and not {*published_for} & {*originals} and model.kind == "huggingface":
        others = " and ".join(published_for)
        if originals:
            of = f"a checkpoint of {others}" if name not in published_for else "another model"
            reason = f"{name} is {of}, but the endpoint would serve it as {model.name}"
            fix = f'{own}, or Model.huggingface("{published_for[0]}") as the model'
        else:
            reason = f"the catalog lists {name} as a checkpoint of {others}, and does not have {model.name}"
            fix = f"Make sure that it is a checkpoint of {model.name}: the endpoint serves it under this name"
        yield _OfAnother(Finding(location, name, fix, reason), is_certain=bool(originals))
    elif shape := _other_shape(recipe.row(model), recipe.row(technique.ready_made)):
        reason = f"{name} is not a checkpoint of {model.name}, the name that the endpoint would serve it under: {shape}"
        yield _OfAnother(Finding(location, name, own, reason), is_certain=True)


def _speculator_of_another(
    recipe: Recipe, row: models.ModelRow, location: str, speculator: Model
) -> Iterator[_OfAnother]:
    drafts_for, originals = models.published_for(speculator.name), models.published_for(row.model_id)
    own = [name for name in row.ready_made if name not in {each.model_id for each in row.checkpoints}]
    instead = " or ".join(f'Model.huggingface("{name}")' for name in own)
    instead = instead or "SpeculativeDecoding.ngram(), which needs no files"
    if drafts_for and not {*drafts_for} & {*originals}:
        reason = f"{speculator.name} was trained to draft for {' and '.join(drafts_for)}"
        of = [models.of_hugging_face()[name] for name in drafts_for]
        if all(_has_another_size(row, other) for other in of):
            reason += f" ({of[0].parameters_billion:g} billion parameters) and reads its hidden states"
            reason += f": {row.model_id} has {row.parameters_billion:g} billion"
            yield _OfAnother(Finding(location, speculator.name, instead, reason), is_certain=True)
        elif recipe.model.kind == "huggingface":
            # A JumpStart or S3 model can be the same model under another name.
            reason += f", so {row.model_id} might accept fewer of its tokens"
            fix = f"Use {instead}; or measure the acceptance length"
            yield _OfAnother(Finding(location, speculator.name, fix, reason), is_certain=False)
    elif not drafts_for and (shape := _other_shape(row, recipe.row(speculator), ("hidden_size",))):
        # A head can project the hidden states of a wider model (target_hidden_size of vLLM's llama_eagle3.py).
        reason = f"according to config.json, {shape}, but heads read hidden states of their own width"
        fix = f"Check its config.json for target_hidden_size; or use {instead}"
        yield _OfAnother(Finding(location, speculator.name, fix, reason), is_certain=False)


_SHAPE = {"layers": "layers", "hidden_size": "hidden units per token"}
# Vendors round: 8.03 billion parameters become 8 billion.
_ROUNDED = 0.05


def _other_shape(
    row: models.ModelRow | None, other: models.ModelRow | None, columns: Sequence[str] = tuple(_SHAPE)
) -> str:
    """Return how two models differ in what quantization does not change; empty if no difference is known."""
    if row is None or other is None:
        return ""
    for column in columns:
        has, differs = getattr(row, column), getattr(other, column)
        if None not in (has, differs) and has != differs:
            return f"{other.model_id} has {differs} {_SHAPE[column]}, and {row.model_id} {has}"
    return ""


def _has_another_size(row: models.ModelRow, other: models.ModelRow) -> bool:
    sizes = sorted((row.parameters_billion or 0, other.parameters_billion or 0))
    return sizes[0] > 0 and sizes[1] > sizes[0] * (1 + _ROUNDED)


def _own_checkpoints(recipe: Recipe, technique: Technique) -> str:
    """Return, as code, the published checkpoints of the recipe's model for a technique."""
    return " or ".join(f'Model.huggingface("{each}")' for each in recipe.published(technique))


def _quantizes(technique: Technique) -> bool:
    return technique.kind == "quantization" and technique.job_stage is not None


@rule("OPT026", f"{GUIDE}optimization-supported-models.html", advisory=True)
def _sagemaker_lists_techniques(recipe: Recipe) -> Iterator[Finding]:
    """SageMaker lists the technique for the model: SageMaker documents no support for the combination."""
    row = recipe.model_row if recipe.hub_model is not None else None
    for location, technique in recipe.located_techniques:
        if row is not None and technique.job_member and technique.support not in row.supports:
            supported = sorted(each.name for each in _registered() if each.job_member and each.support in row.supports)
            listed = ", ".join(supported) or "none"
            reason = f"SageMaker's table of supported models does not list {technique.name} for {row.model_id}"
            yield Finding(location, technique.name, f"Of techniques with such a job, it lists {listed}", reason)


@rule("OPT027", f"{GUIDE}model-optimize.html", advisory=True)
def _no_checkpoint_is_published(recipe: Recipe) -> Iterator[Finding]:
    """No ready-made checkpoint replaces the quantization job: a checkpoint of the model is already published, and needs
    no job.
    """
    for location, technique in recipe.techniques_of(Technique):
        if _quantizes(technique) and (published := " or ".join(recipe.published(technique))):
            call = f"Use {technique.display_name()}(checkpoint=Model.huggingface(...)) with {published}"
            yield Finding(location, technique.name, call)


@rule("OPT024", "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/user_guides/lmi-dist_user_guide.html")
def _the_degree_divides_accelerators(recipe: Recipe) -> Iterator[Finding]:
    """The tensor parallel degree divides the number of accelerators: otherwise, some accelerators are unused."""
    if recipe.instance is None:
        return
    row, count = recipe.instance, recipe.instance.parallel_units
    unit = "accelerator" if row.cores_per_accelerator == 1 else "NeuronCore"
    is_divided = recipe.partition in row.partitions
    owner = f"a {recipe.partition} partition of {row.name}" if is_divided else row.name
    for location, technique in recipe.located_techniques:
        degree = technique.tensor_parallel_degree
        if degree is not None and count % degree:
            divisors = [str(number) for number in range(1, count + 1) if count % number == 0]
            them = "s, which {} does not divide" if count > 1 else ", which {} does not divide"
            reason = f"{owner} has {count} {unit}{them.format(degree)}"
            fix = f"one of {', '.join(divisors)}" if len(divisors) > 1 else divisors[0]
            yield Finding(f"{location}.tensor_parallel_degree", degree, fix, reason)


@rule("OPT025", "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/user_guides/lmi-dist_user_guide.html")
def _degrees_agree(recipe: Recipe) -> Iterator[Finding]:
    """All techniques use the same tensor parallel degree: an artifact is written and served with one degree."""
    degrees = {location: technique.tensor_parallel_degree for location, technique in recipe.located_techniques}
    chosen = {location: degree for location, degree in degrees.items() if degree is not None}
    first = next(iter(chosen.values()), None)
    for location, degree in chosen.items():
        if degree != first:
            yield Finding(
                f"{location}.tensor_parallel_degree", degree, f"{first} for all techniques, or set it on only one"
            )


def _with(recipe: Recipe, *names: str) -> list[tuple[str, Technique]]:
    """Return the techniques with these names or kinds, and their locations."""
    return [(location, t) for location, t in recipe.located_techniques if t.name in names or t.kind in names]


def _excludes(recipe: Recipe, technique: str, excluded: tuple[str, ...], fix: str) -> Iterator[Finding]:
    """Find techniques of ``excluded`` in a recipe with ``technique``."""
    if _with(recipe, technique):
        for location, other in _with(recipe, *excluded):
            yield Finding(location, other.name, fix)


@rule("OPT040", _TENSORRT)
def _compilation_excludes_speculation(recipe: Recipe) -> Iterator[Finding]:
    """Compilation excludes speculative decoding: only the container that compiled the model can serve it, and it does
    not support draft models.
    """
    return _excludes(recipe, "compilation", ("speculative_decoding",), "either compilation or speculative decoding")


@rule("OPT041", "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/index.html")
def _sharding_excludes_the_rest(recipe: Recipe) -> Iterator[Finding]:
    """Sharding combines only with quantization: the fast model loader loads no compiled models and no draft models."""
    excluded = ("compilation", "speculative_decoding")
    return _excludes(recipe, "sharding", excluded, "Sharding.fast_load() alone or after quantization")


@rule("OPT042", "https://github.com/aws/sagemaker-python-sdk/blob/master/src/sagemaker/serve/builder/model_builder.py")
def _neuron_compiles_only(recipe: Recipe) -> Iterator[Finding]:
    """Neuron compilation excludes quantization: jobs for Inferentia and Trainium only compile."""
    return _excludes(recipe, "neuron", ("quantization",), "Compilation.neuron() alone")


@rule("OPT043", _TENSORRT)
def _smoothquant_is_compiled(recipe: Recipe) -> Iterator[Finding]:
    """SmoothQuant needs TensorRT-LLM compilation: only TensorRT-LLM has INT8 kernels for SmoothQuant."""
    if not _with(recipe, "tensorrt_llm"):
        for location, technique in _with(recipe, "smoothquant"):
            yield Finding(location, technique.name, "add Compilation.tensorrt_llm()")


@rule("OPT044", f"{GUIDE}model-optimize.html")
def _pre_optimized_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    """A pre-optimized configuration excludes other techniques: JumpStart publishes its image, environment and files
    together.
    """
    for location, technique in _with(recipe, "pre_optimized") if len(recipe.located_techniques) > 1 else ():
        yield Finding(location, technique.name, "PreOptimized(...) alone, or the other techniques")


@rule("OPT045", f"{GUIDE}model-optimize-eagle.html")
def _eagle_stands_alone(recipe: Recipe) -> Iterator[Finding]:
    """EAGLE heads exclude other techniques: the heads are trained on the unchanged model, and draft only for it."""
    for location, technique in _with(recipe, "eagle") if len(recipe.located_techniques) > 1 else ():
        yield Finding(location, technique.name, "SpeculativeDecoding.eagle() alone")


@rule("OPT046", "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/index.html")
def _tensorrt_llm_reads_no_settings(recipe: Recipe) -> Iterator[Finding]:
    """TensorRT-LLM quantizes with its own settings: TensorRT-LLM silently ignores this setting."""
    for location, technique in _with(recipe, "awq", "fp8") if _with(recipe, "tensorrt_llm") else ():
        for name, info in type(technique).model_fields.items():
            if name != "tensor_parallel_degree" and getattr(technique, name) != info.default:
                yield Finding(f"{location}.{name}", getattr(technique, name), "leave the setting out")


@rule("OPT047", "https://huggingface.co/docs/text-generation-inference/conceptual/speculation")
def _medusa_goes_with_fine_tuning(recipe: Recipe) -> Iterator[Finding]:
    """Medusa combines only with fine-tuning: Medusa heads draft only for the 16-bit weights of their training."""
    excluded = tuple(set(REGISTRY) - {"speculative_decoding", "fine_tuning"})
    return _excludes(recipe, "medusa", excluded, "Medusa(...) alone, or with base=FineTune(...)")

"""Rules about techniques: their settings, their stacking, and the models they work for."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.errors import Described
from constructs_optim.recipe.given import is_sequence
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import REGISTRY, Technique
from constructs_optim.recipe.techniques.parsing import UnknownTechniqueError, call_of, in_code, parse

_GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize.html"
_MATRIX = "https://docs.aws.amazon.com/sagemaker/latest/dg/optimization-supported-models.html"


@rule(
    "OPT020",
    title="There is at least one technique",
    reason="an optimized endpoint applies at least one technique to its model",
    link=_GUIDE,
)
def _there_is_a_technique(recipe: Recipe) -> Iterator[Finding]:
    techniques = recipe.techniques
    example = "techniques=[Quantization.awq()]"
    if isinstance(techniques, str) or not is_sequence(techniques):
        named = techniques.called() if isinstance(techniques, Technique) else techniques
        meant = in_code(named) if isinstance(named, str) else None
        works = f"techniques=[{meant or 'Quantization.awq()'}]"
        yield Finding("techniques", techniques, works, reason="techniques are a list")
        return
    if not techniques:
        yield Finding("techniques", Described("none"), example)
    for index, technique in enumerate(techniques):
        path = f"techniques[{index}]"
        if isinstance(technique, str):
            meant, text = _text(technique)
            why = "this is text, and no technique" if meant else "no technique has that name"
            yield Finding(path, technique, text, reason=why)
        elif isinstance(technique, type) and issubclass(technique, Technique):
            yield Finding(path, technique, call_of(technique), reason="this makes a technique when it is called")
        elif isinstance(technique, type) and (calls := _calls_of(technique)):
            yield Finding(path, technique, f"one of {', '.join(calls)}", reason="this is a group of techniques")
        elif not isinstance(technique, Technique):
            yield Finding(path, technique, example, reason="this is not a technique")


def _text(text: str) -> tuple[bool, str]:
    """Whether a text names a technique, and what to write instead."""
    try:
        parse(text)
    except UnknownTechniqueError as error:
        return str(error).startswith("in Python "), str(error)
    return True, f"in Python {in_code(text)}"


def _calls_of(group: type) -> list[str]:
    """The calls that make the techniques of a group such as ``Quantization``."""
    return [
        call_of(technique)
        for of_kind in REGISTRY.values()
        for technique in of_kind.values()
        if technique.called().startswith(f"{group.__name__}.")
    ]


@rule(
    Technique.rule,
    title="A technique's settings are known and in range",
    reason="the container or job of a technique knows no other settings",
    link=Technique.rule_link,
)
def _technique_settings_are_valid(_: Settings) -> Iterator[Finding]:
    """Enforced when a technique is made (:class:`Settings`)."""
    yield from ()


@rule(
    Settings.rule,
    title="A setting is known, of its type and in range",
    reason="a misspelt setting would be ignored, and one of another type would fail later",
    link=Settings.rule_link,
)
def _settings_are_valid(_: Settings) -> Iterator[Finding]:
    """Enforced when the settings are made (:class:`Settings`)."""
    yield from ()


@rule(
    "OPT022",
    title="A kind of technique is applied once",
    reason="the second would be applied to the output of the first, which no job supports",
    link=_GUIDE,
)
def _each_kind_stands_once(recipe: Recipe) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for place, technique in recipe.known_techniques:
        if technique.kind in seen:
            first = seen[technique.kind]
            yield Finding(
                place,
                technique.name,
                f"keep one {technique.kind}: {first} or this one",
            )
        seen.setdefault(technique.kind, place)


@rule(
    "OPT023",
    title="The model supports the technique",
    reason="SageMaker's matrix of supported models says no",
    link=_MATRIX,
)
def _model_supports_techniques(recipe: Recipe) -> Iterator[Finding]:
    if recipe.model_row is None:
        return
    row = recipe.model_row
    for path, technique in recipe.known_techniques:
        if technique.support not in row.supports:
            registered = [technique for of_kind in REGISTRY.values() for technique in of_kind.values()]
            others = sorted(other.name for other in registered if other.support in row.supports)
            works = f"for this model there is {', '.join(others)}" if others else "for this model there is no technique"
            yield Finding(
                path,
                technique.name,
                f"{works}; for another kind of model see `constructs-optim catalog models`",
                reason=f"{row.model_id} and {technique.name}: {technique.support_source} does not say yes",
            )


@rule(
    "OPT024",
    title="The tensor parallel degree divides the accelerators",
    reason="every copy of the model takes the same number of accelerators, and none is left over",
    link=Technique.rule_link,
)
def _degree_divides_accelerators(recipe: Recipe) -> Iterator[Finding]:
    if recipe.instance is None:
        return
    count = recipe.instance.parallel_units
    unit = "accelerators" if recipe.instance.cores_per_accelerator == 1 else "NeuronCores"
    for place, technique in recipe.known_techniques:
        degree = technique.tensor_parallel_degree
        if degree is not None and count % degree:
            divisors = [str(number) for number in range(1, count + 1) if count % number == 0]
            yield Finding(
                f"{place}.tensor_parallel_degree",
                degree,
                f"one of {', '.join(divisors)}",
                reason=f"{recipe.instance.name} has {count} {unit}, and {degree} does not divide them",
            )


@rule(
    "OPT025",
    title="All techniques agree on the tensor parallel degree",
    reason="the artifact is written for one tensor parallel degree and served with it",
    link=Technique.rule_link,
)
def _degrees_agree(recipe: Recipe) -> Iterator[Finding]:
    asked = {
        place: technique.tensor_parallel_degree
        for place, technique in recipe.known_techniques
        if technique.tensor_parallel_degree is not None
    }
    first = next(iter(asked.values()), None)
    for place, degree in asked.items():
        if degree != first:
            yield Finding(f"{place}.tensor_parallel_degree", degree, f"{first} for all, or for one alone")

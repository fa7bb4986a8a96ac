"""Rules about techniques: their settings, their stacking, and the models they work for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

from constructs_optim.recipe.errors import Described
from constructs_optim.recipe.given import is_sequence
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.techniques import (
    CATALOG_COLUMNS,
    REGISTRY,
    Technique,
    settings,
)
from constructs_optim.recipe.techniques.parsing import in_code, made_by, what_is_wrong

from .registry import Finding, rule
from .setting_values import what_works

_GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-optimize.html"
_MATRIX = "https://docs.aws.amazon.com/sagemaker/latest/dg/optimization-supported-models.html"
_LMI = "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/user_guides/lmi-dist_user_guide.html"
_FACTORIES: list[Callable[..., Technique]] = [make for makers in REGISTRY.values() for make in makers.values()]


@rule(
    "OPT020",
    title="There is at least one technique",
    reason="an optimized endpoint applies at least one technique to its model",
    link=_GUIDE,
)
def _there_is_a_technique(recipe: Recipe) -> Iterator[Finding]:
    given = recipe.techniques
    example = "techniques=[Quantization.awq()]"
    if isinstance(given, str) or not is_sequence(given):
        yield Finding("techniques", given, _as_list(given), reason="techniques are given as a list")
        return
    if not given:
        yield Finding("techniques", Described("none"), example)
    for number, technique in enumerate(given):
        place = f"techniques[{number}]"
        if isinstance(technique, str):
            works = what_is_wrong(technique)
            why = "this is text, and no technique" if works.startswith("in Python ") else "no technique is named so"
            yield Finding(place, technique, works, reason=why)
        elif called := [each for each in _FACTORIES if each is technique]:
            yield Finding(place, technique, made_by(called[0]), reason="this makes a technique when it is called")
        elif isinstance(technique, type) and any(_made_by_class(technique)):
            works = f"one of {', '.join(_made_by_class(technique))}"
            yield Finding(place, technique, works, reason="a technique is made by one of its functions")
        elif not isinstance(technique, Technique):
            yield Finding(place, technique, example, reason="this is not a technique")


def _as_list(given: Any) -> str:
    """What one technique is as a list of it."""
    named = given.method if isinstance(given, Technique) else given
    meant = in_code(named) if isinstance(named, str) else None
    return f"techniques=[{meant or 'Quantization.awq()'}]"


def _made_by_class(kind: type) -> list[str]:
    """The techniques that functions of a class such as ``Quantization`` make."""
    return [made_by(each) for each in _FACTORIES if each.__qualname__.startswith(f"{kind.__name__}.")]


@rule(
    "OPT021",
    title="A technique's settings are in range",
    reason="the container that carries the technique out knows no such setting",
    link=_LMI,
)
def _settings_are_valid(recipe: Recipe) -> Iterator[Finding]:
    for place, technique in recipe.known_techniques:
        try:
            type(technique).model_validate(settings(technique))
        except ValidationError as error:
            for problem in error.errors(include_url=False):
                path = [str(part) for part in problem["loc"]]
                yield Finding(
                    f"{place}.{'.'.join(path)}",
                    problem["input"],
                    what_works(problem),
                    reason=f"the container for {technique.method} does not support this {path[0]}",
                )


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
                technique.method,
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
    for place, technique in recipe.known_techniques:
        says = row.supports(technique.catalog_column)
        if says is not True:
            others = [name for name, column in sorted(CATALOG_COLUMNS.items()) if row.supports(column) is True]
            works = f"for this model there is {', '.join(others)}" if others else "for this model there is no technique"
            said = "says no" if says is False else "does not say yes"
            yield Finding(
                place,
                technique.method,
                f"{works}; for another kind of model see `constructs-optim catalog models`",
                reason=f"{row.model_id} and {technique.method}: {technique.catalog_source} {said}",
            )


@rule(
    "OPT024",
    title="The tensor parallel degree divides the accelerators",
    reason="every copy of the model takes the same number of accelerators, and none is left over",
    link=_LMI,
)
def _degree_divides_accelerators(recipe: Recipe) -> Iterator[Finding]:
    if recipe.instance is None:
        return
    count = recipe.instance.parallel_units
    unit = "accelerators" if recipe.instance.cores_per_accelerator == 1 else "NeuronCores"
    for place, technique in recipe.known_techniques:
        degree = technique.tensor_parallel_degree
        if isinstance(degree, int) and not isinstance(degree, bool) and degree > 0 and count % degree:
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
    link=_LMI,
)
def _degrees_agree(recipe: Recipe) -> Iterator[Finding]:
    asked = {
        place: technique.tensor_parallel_degree
        for place, technique in recipe.known_techniques
        if isinstance(technique.tensor_parallel_degree, int)
    }
    first = next(iter(asked.values()), None)
    for place, degree in asked.items():
        if degree != first:
            yield Finding(f"{place}.tensor_parallel_degree", degree, f"{first} for all, or for one alone")

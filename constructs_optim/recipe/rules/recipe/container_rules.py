"""Rules about the container and its environment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.given import is_mapping
from constructs_optim.recipe.lock import LOCK_FILE
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules.registry import Finding, rule
from constructs_optim.recipe.tokens import is_token

_LMI = "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/index.html"
_JOB_API = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ModelQuantizationConfig.html"
_MODEL_API = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html"
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,1023}")
_MOST_MODEL_VARIABLES, _LONGEST_MODEL_VALUE = 100, 1024
_MOST_JOB_VARIABLES, _LONGEST_JOB_VALUE = 25, 256
# What every plan adds to the given variables of a job: tensor parallel degree and model location.
_ADDED = 2


@rule(
    "OPT030",
    title="An image has all that the techniques need",
    reason="no container image carries these techniques together",
    link=_LMI,
)
def _an_image_has_the_capabilities(recipe: Recipe) -> Iterator[Finding]:
    if recipe.known_techniques and images.select(recipe.capabilities) is None:
        methods = [technique.name for _, technique in recipe.known_techniques]
        yield Finding(
            "techniques", methods, "fewer techniques; `constructs-optim catalog images` lists what each image can do"
        )


@rule(
    "OPT035",
    title="A recorded container can do what its techniques need",
    reason="the lock file records an image that does not carry these techniques",
    link=_LMI,
)
def _the_recorded_image_has_the_capabilities(recipe: Recipe) -> Iterator[Finding]:
    for capabilities in (recipe.capabilities, *([{"training"}] if recipe.trained_techniques else [])):
        requirement = images.requirement(capabilities)
        for name, recorded in recipe.containers.items():
            able = (row.name for row in images.rows() if row.capabilities >= set(capabilities))
            if name.partition("@")[0] == requirement and recorded not in able:
                preferred = images.select(capabilities)
                yield Finding(
                    f"containers[{name!r}]",
                    recorded,
                    f"no entry {name!r} in {LOCK_FILE}"
                    + (f", and the next synthesis records {preferred.name}" if preferred is not None else ""),
                )


@rule(
    "OPT031",
    title="The container's environment is within the service's limits",
    reason="a container has at most 100 variables; a name has letters, digits and underscores, a value at most 1024 "
    "characters",
    link=_MODEL_API,
)
def _environment_is_within_limits(recipe: Recipe) -> Iterator[Finding]:
    given = recipe.environment
    if given is None:
        return
    if not is_mapping(given):
        yield Finding(
            "environment", given, '{"NAME": "value"}', reason="an environment is a mapping of names to values"
        )
        return
    if len(given) > _MOST_MODEL_VARIABLES - _ADDED:
        yield Finding("environment", f"{len(given)} variables", f"at most {_MOST_MODEL_VARIABLES - _ADDED} of your own")
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield Finding("environment", name, "a name such as OPTION_MAX_MODEL_LEN", reason="no variable's name")
        elif not isinstance(value, str):
            works = f"a string: {str(value)[:64]!r}" if value is not None else "a string, or leave it out"
            yield Finding(f"environment.{name}", value, works, reason="values are strings")
        elif not is_token(value) and len(value) > _LONGEST_MODEL_VALUE:
            yield Finding(
                f"environment.{name}",
                f"{len(value)} characters",
                f"at most {_LONGEST_MODEL_VALUE} characters",
            )


@rule(
    "OPT032",
    title="A job's environment is within the service's limits",
    reason="a job's environment has at most 25 variables of at most 256 characters",
    link=_JOB_API,
)
def _job_environment_is_within_limits(recipe: Recipe) -> Iterator[Finding]:
    for place, technique in recipe.known_techniques:
        variables = technique.job_environment()
        if len(variables) > _MOST_JOB_VARIABLES - _ADDED:
            yield Finding(
                place,
                f"{len(variables)} variables",
                f"at most {_MOST_JOB_VARIABLES - _ADDED}",
            )
        for name, value in variables.items():
            if len(value) > _LONGEST_JOB_VALUE:
                longest = max(technique.model_dump().items(), key=lambda item: len(str(item[1])))[0]
                yield Finding(
                    f"{place}.{longest}",
                    f"{len(value)} characters",
                    f"settings that make {name} at most {_LONGEST_JOB_VALUE} characters",
                )


@rule(
    "OPT033",
    title="The environment does not contradict the artifact",
    reason="the job writes the tensor parallel degree into the artifact's serving.properties, which wins over the "
    "variable: another value would be ignored without a word",
    link="https://docs.djl.ai/master/docs/serving/serving/docs/lmi/deployment_guide/configurations.html",
)
def _environment_agrees_with_the_artifact(recipe: Recipe) -> Iterator[Finding]:
    variable, degree = recipe.tensor_parallel_variable, recipe.tensor_parallel_degree
    given = recipe.variables.get(variable)
    if given is not None and degree is not None and given != str(degree):
        yield Finding(
            f"environment.{variable}",
            given,
            "leave the variable out, and give the technique its tensor_parallel_degree",
        )

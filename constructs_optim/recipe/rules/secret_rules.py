"""Rules for secrets in the variables of containers."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Iterator, Mapping

from constructs_optim.recipe.catalog import server_variables
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.secrets import NOT_SHOWN, kind_of_secret, may_be_secret
from constructs_optim.recipe.tokens import is_token

from .registry import Finding, rule

_REFERENCES = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references-secretsmanager.html"
_READ_BY_JOB = "leave it out, and pass the model a secret that only its job reads: token_secret_arn=secret.secret_arn"
_LOOKED_UP = (
    "leave it out, because files come from the artifact store and not from a hub; or let CloudFormation look up a "
    'secret: SecretValue.secrets_manager("<name>").unsafe_unwrap()'
)
_SHOWN = "the template would contain it in plain text, and anyone who can describe the model or its job could read it"


@rule("OPT034", _REFERENCES)
def _environments_hold_no_secrets(recipe: Recipe) -> Iterator[Finding]:
    """The environment contains no secrets: the template, the model and its job show its values in plain text."""
    for location, name, value, fix in _written(recipe):
        if (kind := kind_of_secret(name, value)) is not None:
            yield Finding(location, NOT_SHOWN, fix, f"this is {kind}: {_SHOWN}")


@rule("OPT270", _REFERENCES, advisory=True)
def _environments_hold_nothing_that_may_be_secret(recipe: Recipe) -> Iterator[Finding]:
    """The environment contains nothing that looks like a secret: the template, the model and its job show its values in
    plain text.
    """
    for location, name, value, fix in _written(recipe):
        if may_be_secret(name, value) and kind_of_secret(name, value) is None:
            reason = f"this may be a secret, judging by its name or its text: {_SHOWN}"
            yield Finding(location, NOT_SHOWN, f"If it is one, {fix}", reason)


def _written(recipe: Recipe) -> Iterator[tuple[str, str, str, str]]:
    """Yield the location, name and value of each variable that the recipe has in plain text, and where else a secret
    may be.
    """
    environments = {"environment": recipe.environment if isinstance(recipe.environment, Mapping) else None}
    environments |= {f"{location}.environment": compute.environment for location, compute in recipe.located_compute}
    copies = {f"{location}.compute.environment" for location, _ in recipe.located_models}
    for location, environment in environments.items():
        for name, value in (environment or {}).items():
            if isinstance(name, str) and isinstance(value, str) and not is_token(value):
                yield f"{location}.{name}", name, value, _READ_BY_JOB if location in copies else _instead(name)


def _instead(name: str) -> str:
    """Return where a secret belongs that is in the environment of a server or of a training."""
    row = server_variables.counterparts().get(name)
    return f"leave it out: {row.instead}" if row is not None else _LOOKED_UP

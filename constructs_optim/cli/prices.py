"""Reads users' price files for all commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field, TypeAdapter, ValidationError

from constructs_optim.explanation.jobs import Prices
from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.errors import did_you_mean, shown
from constructs_optim.runtime.documents import json_value

LISTED = "aws"
"""The value that selects the AWS Price List instead of a file."""
PRICES_HELP = 'JSON file of US dollars an hour, {"ml.g5.12xlarge": 7.09}, or `aws` for the AWS Price List.'
PRICES_METAVAR = "FILE|aws"
_USES = ("hosting", "training", "optimization")
_Dollars = Annotated[float, Field(gt=0, strict=True)]
_PRICES_BY_USE: TypeAdapter[dict[str, dict[str, _Dollars]]] = TypeAdapter(dict[str, dict[str, _Dollars]])


def _described(error: ValidationError, *, by_use: bool) -> str:
    """Return the values that are no prices, with their places in the file."""
    texts: list[str] = []
    for problem in error.errors():
        place = problem["loc"] if by_use else problem["loc"][1:]
        wanted = "an object" if problem["type"] == "dict_type" else "a number above zero"
        name = ".".join(map(str, place)) or "the file"
        texts.append(f"{name} is {shown(problem['input'])}, which is not {wanted}")
    return "; ".join(texts)


def stated_prices(path: Path) -> Prices:
    """Read prices: ``{"ml.g5.12xlarge": 7.09}``, or such objects under hosting, training, and optimization."""
    by_use: object = False
    try:
        content = json_value(path.read_bytes())
        by_use = isinstance(content, dict) and content and {*content} <= {*_USES}
        prices = _PRICES_BY_USE.validate_python(content if by_use else {"hosting": content})
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        raise typer.BadParameter(
            f'{path} must be an object of dollars an hour, {{"ml.g5.12xlarge": 7.09}}, or contain such objects under '
            f"{', '.join(_USES)}. {_described(error, by_use=bool(by_use))}"
        ) from None
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not JSON: {error}") from None
    known = {*instances.by_name(), *instances.other_names(), *instances.training_names()}
    names = dict.fromkeys(name for of_use in prices.values() for name in of_use)
    if unknown := [name for name in names if name not in known]:
        found = "; ".join(f"{name}: {did_you_mean(name, known, 'names begin with ml.')}" for name in unknown)
        raise typer.BadParameter(f"{path} has prices of instance types that SageMaker does not have. {found}")
    return Prices(**prices, source=f"prices of {path.name}")

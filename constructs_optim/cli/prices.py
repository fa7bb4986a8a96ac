"""Reads users' price files for all commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field, TypeAdapter, ValidationError

from constructs_optim.evaluator.prompts import describe_errors
from constructs_optim.explanation.jobs import Prices
from constructs_optim.runtime.documents import json_value

LISTED = "aws"
"""The value that selects the AWS Price List instead of a file."""
PRICES_HELP = 'JSON file of US dollars an hour, {"ml.g5.12xlarge": 7.09}, or `aws` for the AWS Price List.'
PRICES_METAVAR = "FILE|aws"
_USES = ("hosting", "training", "optimization")
_Dollars = Annotated[float, Field(gt=0, strict=True)]
_PRICES_BY_USE: TypeAdapter[dict[str, dict[str, _Dollars]]] = TypeAdapter(dict[str, dict[str, _Dollars]])


def stated_prices(path: Path) -> Prices:
    """Read prices: ``{"ml.g5.12xlarge": 7.09}``, or such objects under hosting, training, and optimization."""
    try:
        content = json_value(path.read_bytes())
        by_use = isinstance(content, dict) and content and {*content} <= {*_USES}
        prices = _PRICES_BY_USE.validate_python(content if by_use else {"hosting": content})
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        raise typer.BadParameter(
            f'{path} must be an object of dollars an hour, {{"ml.g5.12xlarge": 7.09}}, or contain such objects under '
            f"{', '.join(_USES)}: {describe_errors(error)}"
        ) from None
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not JSON: {error}") from None
    return Prices(**prices, source=f"prices of {path.name}")

"""Messages about code for the users of a command, with the library's Python calls as options."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from constructs_optim.recipe import RecipeError
from constructs_optim.recipe.errors import IN_PYTHON
from constructs_optim.recipe.techniques import REGISTRY

_CALL = re.compile(r"(?<![\w.])(?P<group>[A-Z]\w*)\.(?P<name>[a-z]\w*)\(")
# The type of a value, which options do not have.
_TYPE = ", as a number and not as text"
# A model's arguments, besides its ID or prefix.
_OF_MODELS = {"revision": "--model-version", "version": "--model-version", "token_secret_arn": "--token-secret-arn"}
_OWNER_AND_NAME = "<owner>/<name>"
_OF_OBJECTIVES = {
    "input_tokens": "--input-tokens",
    "output_tokens": "--output-tokens",
    "requests_per_second": "--rate",
    "time_to_first_token": "--ttft",
    "inter_token_latency": "--itl",
    "max_price_per_hour": "--max-price",
    "confidence": "--confidence",
}
OBJECTIVES = {
    **{f"{path}.{name}": option for name, option in _OF_OBJECTIVES.items() for path in ("Objectives", "objectives")},
    # The rule is about their sum.
    "objectives.input_tokens": "--input-tokens and --output-tokens",
}
"""The options of objectives, by the locations of mistakes in them."""


@contextmanager
def remedies_as_options(
    names: Mapping[str, str] | None = None,
    *,
    given: Mapping[str, str | None] | None = None,
    model: str = "--model ",
    as_json: bool = False,
) -> Iterator[None]:
    """Raise a RecipeError of the block with options as its remedies.

    ``names`` are the options of locations, ``given`` their values as typed, and ``model`` is what precedes a model's
    name. JSON is for programs, which get the error as it is, as agents do.
    """
    typed = given or {}
    try:
        yield
    except RecipeError as error:
        if as_json:
            raise
        named = [((names or {}).get(each.location, each.location), each) for each in error.violations]
        raise type(error)(
            each.model_copy(
                update={
                    "location": name,
                    "value": typed.get(name) or each.value,
                    "suggestion": in_options(each.suggestion, model=model),
                }
            )
            for name, each in named
        ) from None


def in_options(text: str, *, model: str = "--model ") -> str:
    """Return a text with ``--technique quantization=awq`` for ``Quantization.awq()``, and so on.

    Calls with arguments that have no option stay. ``model`` is what precedes a model's name.
    """
    text, written, end = text.partition(IN_PYTHON)[0], "", 0
    for found in _CALL.finditer(text):
        call = _call_at(text, found.start()) if found.start() >= end else None
        option = _option(found["group"], found["name"], call[0], model) if call is not None else None
        if call is not None and option is not None:
            written, end = f"{written}{text[end : found.start()]}{option}", call[1]
    changed = f"{written}{text[end:]}".replace("accept_eula=True", "--accept-eula").replace(_TYPE, "")
    return re.sub(r"(?<![\w-])token_secret_arn=[\w.]+", "--token-secret-arn ARN", changed)


def _call_at(text: str, start: int) -> tuple[ast.Call, int] | None:
    """Return the call that begins at a position, and the position after it."""
    for bracket in re.finditer(r"\)", text[start:]):
        try:
            node = ast.parse(text[start : start + bracket.end()], mode="eval").body
        except SyntaxError:
            continue
        return (node, start + bracket.end()) if isinstance(node, ast.Call) else None
    return None


def _option(group: str, name: str, call: ast.Call, model: str) -> str | None:
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", group).lower()
    given = {str(each.arg): _text(str(each.arg), each.value) for each in call.keywords}
    first = [_text("value", each) for each in call.args]
    if None in given.values() or None in first:
        return None
    if group == "Model":
        return _model(name, first[0] if first else None, given, model)
    settings = "".join(f",{argument}={value}" for argument, value in given.items())
    if kind in REGISTRY and not first:
        return f"--technique {kind}={name}{settings}"
    return f"--server {name}{settings}" if group == "Server" and not first else None


def _model(source: str, first: str | None, given: Mapping[str, str | None], before: str) -> str | None:
    name = first if first not in (None, "<value>") else _OWNER_AND_NAME if source == "huggingface" else "<name>"
    options = [f"--model-s3 {name}" if source == "s3" else f"{before}{name}"]
    for argument, value in given.items():
        if argument == "accept_eula":
            options.append("--accept-eula")
        elif argument in _OF_MODELS:
            options.append(f"{_OF_MODELS[argument]} {value}")
        else:
            return None
    return " ".join(options)


def _text(argument: str, node: ast.expr) -> str | None:
    """Return an argument's value as an option has it; None if no option can have it."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("Model."):
        first = node.args[0] if node.args else None
        return str(first.value) if isinstance(first, ast.Constant) and first.value is not ... else _OWNER_AND_NAME
    if isinstance(node, ast.Constant):
        return f"<{argument}>" if node.value is ... else json.dumps(node.value).strip('"')
    # An object of the app.
    return f"<{argument}>" if isinstance(node, ast.Attribute) else None

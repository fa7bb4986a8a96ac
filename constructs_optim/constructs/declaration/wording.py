"""Rules' suggestions for files, with their Python calls as YAML."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, cast

from .schema import Call, Choice, named_forms, snake

# Where a recipe's values come from in an app, and not in a file.
_OF_APPS = ", which can come from the context"
_NAME = re.compile(r"\b(?:(?P<key>\w+)=)?(?P<call>[A-Z]\w+(?:\.[a-z]\w*)?)\(")


_SECRET = re.compile(r"SecretValue\.secrets_manager\(\"([^\"]*)\"\)\.unsafe_unwrap\(\)")
# A plural such as file(s) is no call.
_METHOD = re.compile(r"(?:\b[a-z_]\w*\.)*\b([a-z_][a-z0-9_]*)\((?!s\))([^()]*)\)")
_CLASS = re.compile(r"\b[A-Z]\w*\((?!s\))([^()]*)\)")
_ARGUMENT = re.compile(r"(?<![\w./?&-])([a-z][a-z0-9_]*)=(\"[^\"]*\"|[\w.]*\w|\.\.\.)?")
_WORDS = {"True": "true", "False": "false", "None": "null"}
_KEYS: dict[str, str] = {}


def name_method(method: str, key: str) -> None:
    """Record the key that stands for a construct's method in a file: ``scaling`` for ``auto_scale``."""
    _KEYS[method] = key


def in_yaml(text: str) -> str:
    """Return a text with its Python as in a file: ``quantization: awq`` for ``Quantization.awq()``, ``scaling`` for
    ``auto_scale()``, and ``spot: false`` for ``spot=False``. Commands in backticks stay.
    """
    text = _SECRET.sub(r"{{resolve:secretsmanager:\1}}", text.partition(_OF_APPS)[0])
    parts = text.split("`")
    return "`".join(part if number % 2 else _translated(part) for number, part in enumerate(parts))


def _translated(text: str) -> str:
    text = _CLASS.sub(r"{\1}", _METHOD.sub(_as_key, _with_values(text)))
    return _ARGUMENT.sub(lambda match: _as_member(match[1], match[2]), text)


def _as_key(call: re.Match[str]) -> str:
    key, arguments = _KEYS.get(call[1], call[1]), call[2].strip()
    return key if arguments in ("", "...") else f"{key}: {arguments}"


def _as_member(name: str, value: str | None) -> str:
    if not value:
        return name
    is_attribute = re.fullmatch(r"[a-z_]\w*(?:\.[a-z_]\w*)+", value) is not None
    return f"{name}: {'...' if is_attribute else _WORDS.get(value, value)}"


def _with_values(text: str) -> str:
    written, end = "", 0
    while (found := _NAME.search(text, end)) is not None:
        close = _end_of_call(text, found.end() - 1)
        yaml = _written(text[found.start("call") : close]) if close is not None else None
        if close is None or yaml is None:
            written, end = written + text[end : found.end()], found.end()
        else:
            key = f"{found['key']}: " if found["key"] else ""
            written, end = f"{written}{text[end : found.start()]}{key}{yaml}", close
    return written + text[end:]


def _end_of_call(text: str, start: int) -> int | None:
    """Return the position after the bracket that closes the one at ``start``."""
    depth = 0
    for index, character in enumerate(text[start:], start):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return index + 1
    return None


def _written(code: str) -> str | None:
    """Return the YAML of a call; None if a file has nothing of that name, or the code is abridged."""
    try:
        value = _value(ast.parse(code, mode="eval").body)
    except (SyntaxError, ValueError):
        return None
    return _flow(value)


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Name | ast.Attribute):
        # An object of the app, such as a secret.
        return ...
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    group, _, member = ast.unparse(node.func).partition(".")
    forms = named_forms()
    form = forms.get(group)
    if member.startswith("from_"):
        # ArtifactStore.from_bucket(store.bucket)
        return {member: ...}
    if form is None or (issubclass(form, Choice) and member not in form.model_fields):
        raise ValueError(group)
    value: Any
    if issubclass(form, Choice):
        arguments = _arguments(node, form.model_fields[member].annotation)
        value = member if not arguments and member in form.bare else {member: arguments}
    elif member:
        # Alarms.none(), in addition to the settings of Alarms.
        value = member
    else:
        value = _arguments(node, form)
    kind = snake(group)
    # Techniques are grouped by kind: quantization: awq.
    return {kind: value} if kind in forms["Technique"].model_fields else value


def _arguments(node: ast.Call, form: Any) -> dict[str, Any]:
    names = list(form.model_fields) if isinstance(form, type) and issubclass(form, Call) else []
    positional = dict(zip(names, [value for value in map(_value, node.args) if value is not ...], strict=False))
    return {**positional, **{str(each.arg): _value(each.value) for each in node.keywords}}


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, cast("list[Any]", value))) + "]"
    if value is ...:
        return "..."
    if isinstance(value, str):
        return value if re.fullmatch(r"[A-Za-z][\w./@-]*|\d+\.\d+\.\d+", value) else json.dumps(value)
    return json.dumps(value)

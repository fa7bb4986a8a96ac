"""Messages about code for the readers of files, with the library's Python calls as YAML."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from constructs_optim.recipe.errors import IN_PYTHON, shortened, shown
from constructs_optim.recipe.tokens import without_tokens

from .references import REFERENCES
from .schema import Call, Choice, named_arguments, named_forms, snake

# How an app and a file give a value that synthesis needs, and what the CDK calls a value that is known too late.
_OF_APPS = re.compile(r"the (\w+) as a string, which can come from the context.*", re.DOTALL)
_OF_FILES = r"the \1 itself, without ${...}; to deploy with several, one file for each \1"
_TOKEN, _IN_FILES = "is a token, whose value", "comes from a parameter or an attribute, whose value"
_IN_A_FILE = " In a file: "
_SECRET = re.compile(r"SecretValue\.secrets_manager\(\"([^\"]*)\"\)\.unsafe_unwrap\(\)")
# A call, with the verb before it; a name such as Server.vllm; or an argument with its value. A plural such as file(s)
# is no call.
_CODE = re.compile(
    r"(?:(?P<verb>[Cc])all )?"
    r"(?P<call>(?<![\w.])(?:[a-z_]\w*\.)*(?P<name>[A-Za-z]\w*)(?:\.(?P<member>[a-z]\w*))?)\((?!s\))"
    r"|(?<![\w.])(?P<group>[A-Z]\w*)\.(?P<of>[A-Za-z]\w*)(?![\w(]|\.\w)"
    r"|(?<![\w./?&-])(?P<argument>[a-z][a-z0-9_]*)=(?!=)"
)
# A technique as a policy and the command line name it: quantization=awq,group_size=64.
_TECHNIQUE = re.compile(r"[a-z_]+=[a-z]\w*(?:,[a-z_]+=[\w.]+)*(?!\w|\.\w|\()")
_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'|-?\d[\d_]*(?:\.\d+)?|\.\.\.|[A-Za-z_][\w.]*\w|\[|\{")
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}
_MORE = re.compile(r",\s*\.\.\.\s*\)$")
_NEXT_CALL = re.compile(r"\.[a-z]\w*\(")
# None is also a word of prose.
_WORDS = re.compile(r"\b(?:True|False)\b|(?<== )None\b|(?<![\w./\"'-])[a-z]+_[a-z_]+\b(?![(=\"'])")
# A call after the page about it, which only an app can have.
_AFTER_PAGE = re.compile(r"(?<=/), with EndpointMonitoring\.of\(\.\.\.\)")
_UNITS = {"seconds": "s", "minutes": "m", "hours": "h", "days": "d", "mebibytes": "MiB", "gibibytes": "GiB"}
_OBJECTS = {each.__name__ for each in REFERENCES if each.__module__.startswith("aws_cdk")}
# A message may quote a file's text, which is as long and as deep as its author likes.
_LONGEST = 1_000
_METHODS: dict[str, tuple[str, str]] = {"during": ("period", "value")}


def name_method(method: str, key: str, calls: str) -> None:
    """Record the key that stands for a construct's method in a file: ``scaling`` for ``auto_scale``.

    ``calls`` is ``once``, ``list`` for a key with a list, ``id`` for one with a mapping of IDs, and ``value`` for one
    whose value is the only argument.
    """
    _METHODS[method] = key, calls


def in_yaml(text: str) -> str:
    """Return a text with its Python as in a file: ``quantization: awq`` for ``Quantization.awq()``, ``scaling`` for
    ``auto_scale()``, and ``spot: false`` for ``spot=False``. Commands in backticks and all other text stay.
    """
    text = _OF_APPS.sub(_OF_FILES, text).replace(_TOKEN, _IN_FILES).replace(IN_PYTHON, _IN_A_FILE)
    text = _AFTER_PAGE.sub("", text)
    text = _SECRET.sub(r'"{{resolve:secretsmanager:\1}}"', text)
    parts = text.split("`")
    return "`".join(part if number % 2 else _translated(part) for number, part in enumerate(parts))


def _translated(text: str) -> str:
    written, end, ends = "", 0, _ends_of(text)
    for found in _CODE.finditer(text):
        if found.start() < end:
            continue
        close, yaml = (_argument if found["argument"] else _name if found["group"] else _call)(text, found, ends)
        if yaml is None and found["call"]:
            # Other code stays whole.
            yaml = text[found.start() : close]
        if yaml is not None:
            written, end = f"{written}{_WORDS.sub(_word, text[end : found.start()])}{yaml}", close
    return written + _WORDS.sub(_word, text[end:])


def _word(found: re.Match[str]) -> str:
    words = {"True": "true", "False": "false", "None": "null"}
    return words.get(found[0]) or _METHODS.get(found[0], (found[0], ""))[0]


def _name(text: str, found: re.Match[str], ends: Mapping[int, int]) -> tuple[int, str | None]:
    """Return the end of a name such as ``Server.vllm``, and its path in a file, ``server.vllm``; None if a file has
    nothing of that name.
    """
    group, member = found["group"], found["of"]
    if group in _OBJECTS:
        # RemovalPolicy.RETAIN
        return found.end(), member.lower()
    form = named_forms().get(group)
    is_named = form is not None and (issubclass(form, Choice) and member in form.model_fields)
    return found.end(), f"{snake(group)}.{member}" if is_named else None


def _argument(text: str, found: re.Match[str], ends: Mapping[int, int]) -> tuple[int, str | None]:
    """Return the end of an argument with its value, and its YAML; None if no file has an argument of that name."""
    name, close = found["argument"], found.end()
    if name not in named_arguments():
        return close, None
    technique = _TECHNIQUE.match(text, found.start())
    if technique is not None and name in named_forms()["Technique"].model_fields:
        return technique.end(), technique[0]
    value = _VALUE.match(text, close)
    if value is None:
        return close, name
    close = value.end()
    if value[0] in _CLOSED_BY or text[close : close + 1] == "(":
        close = ends.get(close - 1 if value[0] in _CLOSED_BY else close, close)
    try:
        return close, f"{name}: {flow(_value(ast.parse(text[found.end() : close], mode='eval').body))}"
    except (RecursionError, SyntaxError, ValueError):
        return close, f"{name}: ..."


def _call(text: str, found: re.Match[str], ends: Mapping[int, int]) -> tuple[int, str | None]:
    """Return the end of a call, and its YAML; None if a file has nothing of that name."""
    close = ends.get(found.end() - 1)
    if close is None:
        return found.end(), None
    # A chain of calls is translated whole.
    while (next_call := _NEXT_CALL.match(text, close)) and (end := ends.get(next_call.end() - 1)) is not None:
        close = end
    code = text[found.start("call") : close]
    is_chain = close != ends[found.end() - 1]
    has_more = _MORE.search(code)
    try:
        if len(code) > _LONGEST:
            raise ValueError(code[:_LONGEST])
        node = ast.parse(_MORE.sub(")", code), mode="eval").body
        if found["name"] in _METHODS and not found["member"] and isinstance(node, ast.Call):
            verb = {"C": "Add ", "c": "add "}.get(found["verb"], "")
            key, value = _of_methods(_chain(node))
            return close, f"{verb}{key}: {flow(value)}" if value else verb + key
        value = _value(node)
    except (RecursionError, SyntaxError, ValueError):
        is_ours = found["name"] in named_forms() or found["name"] in _METHODS
        # Half of a chain is no YAML either.
        return close, "..." if is_chain and is_ours else None
    yaml = "{...}" if value is ... else flow(value)
    if has_more is not None and yaml.endswith("}"):
        yaml = f"{yaml[:-1]}, ...}}"
    return close, text[found.start() : found.start("call")] + yaml


def _ends_of(text: str) -> dict[int, int]:
    """Return the positions after the brackets that close others, by the others' positions; only of near ones."""
    ends: dict[int, int] = {}
    open_: dict[str, list[int]] = {closing: [] for closing in _CLOSED_BY.values()}
    for index, character in enumerate(text):
        if character in _CLOSED_BY:
            open_[_CLOSED_BY[character]].append(index)
        elif open_.get(character):
            start = open_[character].pop()
            if index - start < _LONGEST:
                ends[start] = index + 1
    return ends


def _chain(node: ast.Call) -> list[tuple[str, ast.Call]]:
    """Return the calls of a chain, such as ``endpoint.evaluate(...).require(...)``, with their methods' names."""
    of = node.func
    name = of.attr if isinstance(of, ast.Attribute) else ast.unparse(of)
    before = _chain(of.value) if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Call) else []
    return [*before, (name, node)]


def _of_methods(chain: list[tuple[str, ast.Call]]) -> tuple[str, Any]:
    """Return the key and the value of a chain of methods.

    Raises:
        ValueError: if a file has no key for one of them.
    """
    (method, node), *rest = chain
    if method not in _METHODS:
        raise ValueError(method)
    key, calls = _METHODS[method]
    value: Any = {str(each.arg): _inner(each.value) for each in node.keywords}
    if rest:
        inner, of_inner = _of_methods(rest)
        value[inner] = of_inner or ...
    first = next((each.value for each in node.args if isinstance(each, ast.Constant) and each.value is not ...), None)
    if calls == "id":
        value = {str(first or "<id>"): value} if value else {}
    if calls == "list" and value:
        value = [value]
    if calls == "value":
        value = first
    if not value and first is not None:
        return f"{key}.{first}", value
    return key, value


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) in _OBJECTS:
        # RemovalPolicy.RETAIN
        return node.attr.lower()
    if isinstance(node, ast.Name | ast.Attribute):
        # An object of the app, such as a secret.
        return ...
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    group, _, member = ast.unparse(node.func).partition(".")
    if group in _OBJECTS and member in _UNITS and len(node.args) == 1:
        # Duration.hours(2)
        return f"{_value(node.args[0])}{_UNITS[member]}"
    forms = named_forms()
    form = forms.get(group)
    if form is None:
        raise ValueError(group)
    if member.startswith("from_"):
        # ArtifactStore.from_bucket(store.bucket)
        existing = next((each.model_fields[member] for each in forms.values() if member in each.model_fields), None)
        return {member: _arguments(node, existing.annotation) if existing else ...}
    if issubclass(form, Choice) and member not in form.model_fields:
        raise ValueError(member)
    value: Any
    if issubclass(form, Choice):
        arguments = _arguments(node, form.model_fields[member].annotation)
        value = member if arguments == {} and member in form.bare else {member: arguments}
    elif member:
        # Alarms.none(), in addition to the settings of Alarms.
        value = member
    else:
        value = _arguments(node, form)
    kind = snake(group)
    # Techniques are grouped by kind: quantization: awq.
    return {kind: value} if kind in forms["Technique"].model_fields else value


def _arguments(node: ast.Call, form: Any) -> Any:
    """Return the arguments of a call by name; ``...`` if only some are needed, which the text leaves out."""
    names = list(form.model_fields) if isinstance(form, type) and issubclass(form, Call) else []
    given = [_inner(each) for each in node.args if not (isinstance(each, ast.Constant) and each.value is ...)]
    named = {str(each.arg): _inner(each.value) for each in node.keywords}
    return {**dict(zip(names, given, strict=False)), **named} or (... if node.args else {})


def _inner(node: ast.expr) -> Any:
    """Return the value of an argument; ``...`` for what only an app can create."""
    try:
        return _value(node)
    except ValueError:
        return ...


def flow(value: Any) -> str:
    """Return a value as YAML on one line; ``...`` stays a placeholder."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{key}: {flow(each)}" for key, each in items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, cast("list[Any]", value))) + "]"
    if value is ...:
        return "..."
    if isinstance(value, str):
        is_plain = re.fullmatch(r"[A-Za-z][\w./@-]*|\d+(?:\.\d+\.\d+|[smhd]|MiB|GiB)|<[\w ]+>", value)
        is_other = value.lower() in ("true", "false", "null")
        return value if is_plain and not is_other else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, default=str)


def shown_in_yaml(value: object) -> str:
    """Return a value as text, as a file has it, truncated if it is long."""
    if value is None or isinstance(value, bool | int | float | str | list | dict):
        return shortened(without_tokens(flow(cast("object", value))))
    return in_yaml(shown(value))

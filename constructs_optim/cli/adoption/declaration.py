"""Python source of a stack, formatted as ruff formats it."""

from __future__ import annotations

import builtins
import itertools
import json
import keyword
import math
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any, Literal

_WIDTH = 120
_INDENT = "    "
_MODULES = frozenset({"autoscaling", "ec2", "iam", "kms", "s3", "sns"})
# The IDs of an endpoint's own constructs; the CDK treats Default and Resource as no part of a name.
_ENDPOINT_IDS = frozenset({
    "Advice", "Alarm", "Alarms", "Artifact", "Artifacts", "Bucket", "Capacity", "Component", "Components", "Config",
    "CopyRole", "Dashboard", "Default", "Ended", "Evaluation", "ExecutionRole", "Handler", "JobRole", "Key", "Logs",
    "Model", "Models", "Optimization", "Permissions", "Preflight", "Promoted", "Resource", "Restart", "Role", "Run",
    "Scaling", "ScalingSuspended", "SecurityGroup", "Served", "Serving", "Shadow", "StateMachine", "Store", "Topic",
    "TrainingCode", "Vpc", "WakeUp", "WatchAlarms",
})  # fmt: skip


@dataclass(frozen=True)
class Code:
    """An expression, written verbatim."""

    text: str


class Call:
    """A call, with comments above its arguments, by name (``""``: above the call itself)."""

    def __init__(self, name: str, /, *positional: Any, **named: Any) -> None:
        """Store the function's expression and its arguments: calls, code, literals, or lists and dicts of these."""
        self.name, self.positional, self.named = name, positional, named
        self.comments: dict[str, str] = {}


class Declaration:
    """An app with one stack: its imports and its statements.

    Names of existing resources follow AWS's rules and not Python's. So variables and construct IDs come from
    ``variable`` and ``construct_id``, which return each only once.
    """

    def __init__(self, stack_name: str, account: str, region: str) -> None:
        """Begin with the stack."""
        self._imports: dict[str, set[str]] = {
            "aws_cdk": {"App", "Environment", "Stack"},
            "constructs_optim": {"OptimizedEndpoint"},
        }
        self._variables: set[str] = set()
        self._ids: dict[str, set[str]] = {"stack": set(), "endpoint": {*_ENDPOINT_IDS}}
        self._variables |= {"app", "stack"}
        environment = Call("Environment", account=account, region=region)
        self._statements: list[tuple[str | None, Call]] = [
            ("app", Call("App")),
            ("stack", Call("Stack", Code("app"), stack_name, env=environment)),
        ]

    def variable(self, name: str) -> str:
        """Return the variable for a name of any characters: a valid identifier that nothing else in the program has."""
        words = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")
        wanted = words if words[:1].isalpha() else f"adopted_{words}".rstrip("_")
        taken = self._variables | _MODULES | {*dir(builtins)} | {*keyword.kwlist, *keyword.softkwlist}
        return _added(self._variables, taken, wanted, "_")

    def construct_id(self, scope: Literal["stack", "endpoint"], name: str) -> str:
        """Return the construct ID for a name of any characters, which no other construct of the scope has."""
        return _added(self._ids[scope], self._ids[scope], camel_case(name), "")

    def imports(self, module: str, name: str) -> None:
        """Import a name of a module, or a module of ``_MODULES`` as ``module as name``."""
        if " as " in name and name.split()[-1] not in _MODULES:
            raise ValueError(f"{name}: a variable could have this name")
        self._imports[module].add(name)

    def add(self, variable: str | None, call: Call) -> None:
        """Add a statement, and assign its value to a variable if there is a name."""
        self._statements.append((variable, call))

    def render(self, title: str) -> str:
        """Return the program."""
        return "\n".join(self._lines(title)) + "\n"

    def _lines(self, title: str) -> Iterator[str]:
        used = "\n".join(line for variable, call in self._statements for line in _statement(variable, call))
        yield '"""{}"""'.format(_printable(title).replace("\\", "\\\\").replace('"', '\\"'))
        yield ""
        for module in sorted(self._imports):
            names = sorted(
                (name for name in self._imports[module] if re.search(rf"\b{name.split()[-1]}\b", used)), key=_order
            )
            plain = [name for name in names if " as " not in name]
            if plain:
                line = f"from {module} import {', '.join(plain)}"
                yield from (
                    [line]
                    if len(line) <= _WIDTH
                    else [f"from {module} import (", *(f"{_INDENT}{name}," for name in plain), ")"]
                )
            yield from (f"from {module} import {name}" for name in names if " as " in name)
        yield ""
        yield used
        yield ""
        yield "app.synth()"


def _added(names: set[str], taken: Set[str], wanted: str, separator: str) -> str:
    """Return ``wanted``, with a number if it is taken, and add it to ``names``."""
    numbered = (f"{wanted}{separator}{number}" for number in itertools.count(2))
    found = next(name for name in itertools.chain([wanted], numbered) if name not in taken)
    names.add(found)
    return found


def _printable(text: str) -> str:
    """Return text on one line: in a comment, a line break would begin a statement."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _order(name: str) -> tuple[bool, str]:
    return not name.isupper(), name


def _statement(variable: str | None, call: Call) -> Iterator[str]:
    if variable not in (None, "app", "stack"):
        yield ""
    if comment := call.comments.get(""):
        yield f"# {_printable(comment)}"
    assigned = f"{variable} = " if variable is not None else ""
    yield from _rendered(assigned, call, "", "")


def _rendered(before: str, value: Any, after: str, indent: str) -> list[str]:
    """Yield a value between two texts, on one line if that fits and it contains no comment."""
    line = f"{indent}{before}{_inline(value)}{after}"
    if len(line) <= _WIDTH and not _commented(value):
        return [line]
    deeper = indent + _INDENT
    match value:
        case Call():
            arguments = [("", item) for item in value.positional] + list(value.named.items())
            lines = [f"{indent}{before}{value.name}("]
            for name, item in arguments:
                if (name and (comment := value.comments.get(name))) or (
                    isinstance(item, Call) and (comment := item.comments.get(""))
                ):
                    lines.append(f"{deeper}# {_printable(comment)}")
                lines += _rendered(f"{name}=" if name else "", item, ",", deeper)
            lines.append(f"{indent}){after}")
            return lines
        case list():
            inner = [line for item in value for line in _rendered("", item, ",", deeper)]
            return [f"{indent}{before}[", *inner, f"{indent}]{after}"]
        case dict():
            inner = [
                line for name, item in value.items() for line in _rendered(f"{_inline(name)}: ", item, ",", deeper)
            ]
            return [f"{indent}{before}{{", *inner, f"{indent}}}{after}"]
        case _:
            return [line]


def _commented(value: Any) -> bool:
    match value:
        case Call():
            parts = [*value.positional, *value.named.values()]
            return any(name for name in value.comments) or any(
                _commented(part) or (isinstance(part, Call) and bool(part.comments)) for part in parts
            )
        case list():
            return any(_commented(part) for part in value)
        case dict():
            return any(_commented(part) for part in value.values())
        case _:
            return False


def _inline(value: Any) -> str:
    match value:
        case Code():
            return value.text
        case Call():
            arguments = [_inline(item) for item in value.positional]
            arguments += [f"{name}={_inline(item)}" for name, item in value.named.items()]
            return f"{value.name}({', '.join(arguments)})"
        case list():
            return f"[{', '.join(_inline(item) for item in value)}]"
        case dict():
            return f"{{{', '.join(f'{_inline(name)}: {_inline(item)}' for name, item in value.items())}}}"
        case str() if any("\ud800" <= each <= "\udfff" for each in value):
            return ascii(value)
        case str():
            return repr(value) if '"' in value and "'" not in value else json.dumps(value, ensure_ascii=False)
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case float() if value == int(value):
            return str(int(value))
        case _:
            return repr(value)


def camel_case(name: str) -> str:
    """Return a name as a construct's ID: ``ChatProd`` for ``chat-prod``."""
    words = "".join(word[:1].upper() + word[1:] for word in re.split(r"[^0-9A-Za-z]+", name))
    return words if words[:1].isalpha() else f"Adopted{words}"

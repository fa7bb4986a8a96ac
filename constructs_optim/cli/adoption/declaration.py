"""Python source of a stack, formatted as ruff formats it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_WIDTH = 120
_INDENT = "    "


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
    """An app with one stack: its imports and its statements."""

    def __init__(self, stack_name: str, account: str, region: str) -> None:
        """Begin with the stack."""
        self._imports: dict[str, set[str]] = {
            "aws_cdk": {"App", "Environment", "Stack"},
            "constructs_optim": {"OptimizedEndpoint"},
        }
        environment = Call("Environment", account=account, region=region)
        self._statements: list[tuple[str | None, Call]] = [
            ("app", Call("App")),
            ("stack", Call("Stack", Code("app"), stack_name, env=environment)),
        ]

    def imports(self, module: str, name: str) -> None:
        """Import a name, or ``module as name``."""
        self._imports[module].add(name)

    def add(self, variable: str | None, call: Call) -> None:
        """Add a statement, and assign its value to a variable if there is a name."""
        self._statements.append((variable, call))

    def render(self, title: str) -> str:
        """Return the program."""
        return "\n".join(self._lines(title)) + "\n"

    def _lines(self, title: str) -> Iterator[str]:
        used = "\n".join(line for variable, call in self._statements for line in _statement(variable, call))
        yield f'"""{title}"""'
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


def _order(name: str) -> tuple[bool, str]:
    return not name.isupper(), name


def _statement(variable: str | None, call: Call) -> Iterator[str]:
    if variable not in (None, "app", "stack"):
        yield ""
    if comment := call.comments.get(""):
        yield f"# {comment}"
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
                    lines.append(f"{deeper}# {comment}")
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
        case str():
            return repr(value) if '"' in value and "'" not in value else json.dumps(value, ensure_ascii=False)
        case float() if value == int(value):
            return str(int(value))
        case _:
            return repr(value)


def camel_case(name: str) -> str:
    """Return a name as a construct's ID: ``ChatProd`` for ``chat-prod``."""
    words = "".join(word[:1].upper() + word[1:] for word in re.split(r"[^0-9A-Za-z]+", name))
    return words if words[:1].isalpha() else f"Adopted{words}"

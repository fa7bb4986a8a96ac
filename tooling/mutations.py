"""The mutations of a Python file: small edits of its text, each of which changes what the file does.

Not mutated, because a test is not expected to notice: docstrings, text with spaces (prose), messages of exceptions and
of logs, addresses of documents, control characters (sentinels), what ``repr`` shows, assertions, and what only type
checkers read. Comparisons and numbers
change by more than their boundary: a request more or a second less is for the tests of limits, which name each of them.
"""

from __future__ import annotations

import ast
import bisect
import re
from dataclasses import dataclass
from itertools import pairwise

_EXCHANGED = (
    *(("<", ">="), (">", "<="), ("==", "!="), ("is", "is not"), ("in", "not in")),
    *(("and", "or"), ("+", "-"), ("*", "/")),
)
_OTHER_OPERATORS = {
    **dict(_EXCHANGED),
    **{second: first for first, second in _EXCHANGED},
    "//": "/",
    "%": "*",
    "**": "*",
    "&": "|",
}
# A sequence or a text minus another one is an error in any case: without its second part, it may pass.
_LEFT_PART_ONLY = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple)
_READ_BY_TYPE_CHECKERS = {"TypeVar", "NewType", "Callable", "Literal", "dataclass", "overload"}
# Nothing, a sentinel, prose, an address.
_UNCHANGED_TEXT = re.compile(r"^[\0-\10]*\Z| |://")
# Arguments of dataclasses and of their fields.
_NOT_NOTICED = {"frozen", "repr"}
_LOGS = re.compile(r"\b(log|_?logger\.\w+|\w+\.add_(warning|info|error)\w*)$")
_CACHES = re.compile(r"\b(cache|lru_cache)\b")


@dataclass(frozen=True)
class Mutation:
    """An edit of a file: ``text`` in place of what is from the byte ``start`` to the byte ``end``.

    Attributes:
        line: the line that the edit begins in, from 1.
        lines: those of the statement that executes it, without the statements in it.
        function: the qualified name of the function or class around it, ``""`` at a module's level.
        name: the name by which other code uses what it changes: of the function or class, or of a module's variable.
        runs_once: whether it runs when the module is imported or for a cache, so that few of the tests that depend on
            it execute it.
    """

    line: int
    lines: range
    function: str
    name: str
    runs_once: bool
    start: int
    end: int
    text: str

    def of(self, source: bytes) -> bytes:
        """Return the mutated source."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def is_valid(self, source: bytes) -> bool:
        """Return whether the mutated source is valid Python."""
        try:
            compile(self.of(source), "mutated", "exec")
        except (SyntaxError, ValueError):
            return False
        return True

    def difference(self, source: bytes) -> tuple[str, str]:
        """Return the edited lines before and after it, each as one line."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.end)
        after = source[first : self.start] + self.text.encode() + source[self.end : last]
        return _one_line(source[first:last]), _one_line(after)


def mutations(source: bytes) -> list[Mutation]:
    """Return the mutations of a file in the order of their places; a few may be no valid Python."""
    visitor = _Visitor(source)
    visitor.visit(ast.parse(source))
    return sorted(set(visitor.found), key=lambda each: (each.start, each.end, each.text))


def _one_line(text: bytes) -> str:
    return " ".join(text.decode().split())


class _Visitor(ast.NodeVisitor):
    """Finds a file's mutations, and skips what is not mutated."""

    def __init__(self, source: bytes) -> None:
        self.found: list[Mutation] = []
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scope: tuple[str, ...] = ()
        self._name = ""
        self._lines = range(0)
        self._runs_once = True
        self._in_message: bool = False

    def visit(self, node: ast.AST) -> None:
        """Find the mutations of a node and of those in it."""
        outside = (self._scope, self._name, self._lines, self._runs_once, self._in_message)
        if isinstance(node, ast.stmt):
            nested = [each.lineno for each in ast.walk(node) if isinstance(each, ast.stmt) and each is not node]
            decorated = [each.lineno for each in getattr(node, "decorator_list", [])]
            first = min([node.lineno, *decorated])
            self._lines = range(first, max(first + 1, min([(node.end_lineno or first) + 1, *nested])))
        if not self._is_skipped(node):
            super().visit(node)
        self._scope, self._name, self._lines, self._runs_once, self._in_message = outside

    def _is_skipped(self, node: ast.AST) -> bool:
        match node:
            case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant()):
                return True
            case ast.Call(func) if _LOGS.search(ast.unparse(func)):
                return True
            case ast.Call(func) | ast.Subscript(value=func):
                return ast.unparse(func).rpartition(".")[2] in _READ_BY_TYPE_CHECKERS
            case ast.If(test=ast.Name("TYPE_CHECKING") | ast.UnaryOp(operand=ast.Name("TYPE_CHECKING"))):
                return True
            case ast.Assign(targets=[ast.Name(name)], value=value):
                is_union = not self._scope and isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
                return is_union or name in {"__all__", "__slots__"}
            case ast.FunctionDef(name="__repr__"):
                return True
            case ast.keyword(arg=name):
                return name in _NOT_NOTICED
            case _:
                return False

    # Statements

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Its body runs when it is called, and the defaults of its arguments when it is defined."""
        self._name = node.name
        for each in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(each)
        self._scope = (*self._scope, node.name)
        self._runs_once = any(_CACHES.search(ast.unparse(each)) for each in node.decorator_list)
        for each in node.body:
            self.visit(each)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Its body runs when it is defined."""
        self._scope, self._name = (*self._scope, node.name), node.name
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Of its type, only what is more than a type is executed: pydantic's bounds."""
        if isinstance(node.annotation, ast.Subscript) and ast.unparse(node.annotation.value) == "Annotated":
            self.generic_visit(node.annotation)
        if not self._scope and isinstance(node.target, ast.Name):
            self._name = node.target.id
        if node.value:
            self.visit(node.value)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        """Either branch alone."""
        self._replace(node.test, "True", "False")
        self.generic_visit(node)

    visit_IfExp = visit_If  # noqa: N815

    def visit_While(self, node: ast.While) -> None:
        """Not once."""
        self._replace(node.test, "False")
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        """With and without the guard."""
        if node.guard:
            self._replace(node.guard, "True", "False")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """All elements, and none."""
        for each in node.ifs:
            self._replace(each, "True", "False")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """None, or the other truth value."""
        if node.value is None:
            return
        if not isinstance(node.value, ast.Constant):
            self._replace(node.value, "None")
        if isinstance(node.value, ast.BoolOp):
            self._replace(node.value, f"not ({self._text(node.value)})")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Not raised."""
        if node.exc:
            self._replace(node, "pass")
        self._in_message = True
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Not called."""
        if isinstance(node.value, ast.Call) and not self._is_skipped(node.value):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Not kept in another object."""
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            self._replace(node, "pass")
        if not self._scope and isinstance(node.targets[0], ast.Name):
            self._name = node.targets[0].id
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Not changed, unless it is a message."""
        if not isinstance(node.value, ast.JoinedStr):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue | ast.Break | ast.Delete) -> None:
        """Not done."""
        self._replace(node, "pass")

    visit_Break = visit_Delete = visit_Continue  # noqa: N815

    # Expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        """The opposite."""
        self._replace_operators([node.left, *node.comparators])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """``and`` for ``or``, and the reverse."""
        self._replace_operators(node.values)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Another operator; of texts, sequences, sets and mappings, the left part."""
        is_text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if is_text and isinstance(node.op, ast.Mod | ast.Mult):
            return
        is_sequence = is_text or any(isinstance(each, _LEFT_PART_ONLY) for each in (node.left, node.right))
        if is_sequence or isinstance(node.op, ast.BitOr):
            self._replace(node, self._text(node.left))
        else:
            self._replace_operators([node.left, node.right])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Not negated."""
        if isinstance(node.op, ast.Not):
            self._replace(node, self._text(node).removeprefix("not").lstrip())
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """A slice without its first or its last bound."""
        if isinstance(node.slice, ast.Slice):
            for bound in filter(None, (node.slice.lower, node.slice.upper)):
                self._replace(bound, "")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Without a keyword argument. ``zip(strict=True)`` asserts that two lists have the same length."""
        called = ast.unparse(node.func)
        if called == "zip":
            for each in node.args:
                self.visit(each)
            return
        for keyword in node.keywords:
            if keyword.arg not in _NOT_NOTICED and not self._in_message:
                self._remove(self._position(keyword), self._end(keyword))
        if called == "cast":
            self.visit(node.args[1])
        else:
            self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        """Without an entry."""
        for key, value in zip(node.keys, node.values, strict=True):
            if key:
                self._remove(self._position(key), self._end(value))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """The other truth value, a number twice and 1, a name and a character."""
        text = self._text(node)
        match node.value:
            case bool():
                self._replace(node, str(not node.value))
            case int() | float():
                self._replace(node, str(2 * node.value + 1))
            case str(value) if not self._in_message and not _UNCHANGED_TEXT.search(value):
                self._replace(node, f"{text[:-1]}_{text[-1]}")
            case _:
                pass

    # Edits

    def _replace_operators(self, operands: list[ast.expr]) -> None:
        for left, right in pairwise(operands):
            start, end = self._end(left), self._position(right)
            between = self._source[start:end].decode()
            operator = between.strip("() \n")
            if other := _OTHER_OPERATORS.get(operator):
                self._add(start, end, between.replace(operator, other))

    def _replace(self, node: ast.expr | ast.stmt, *texts: str) -> None:
        for text in texts:
            if text != self._text(node):
                self._add(self._position(node), self._end(node), text)

    def _remove(self, start: int, end: int) -> None:
        """Remove an element, and the comma after it, or before the last one."""
        if after := re.match(rb"\s*,\s*", self._source[end:]):
            end += after.end()
        elif before := re.search(rb"\s*,\s*$", self._source[:start]):
            start = before.start()
        self._add(start, end, "")

    def _add(self, start: int, end: int, text: str) -> None:
        line = bisect.bisect_right(self._starts, start)
        self.found.append(
            Mutation(line, self._lines, ".".join(self._scope), self._name, self._runs_once, start, end, text)
        )

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._source[self._position(node) : self._end(node)].decode()

    def _position(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

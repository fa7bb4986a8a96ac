"""What constructs ask of their stack again and again, asked once: every question to the CDK is a round trip to Node.

What is kept here cannot change: a construct's stack, place and ids are fixed when it is created, and so are a stack's
name, account and region.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from aws_cdk import Aws, Fn, Stack
from constructs import Construct, IConstruct

from constructs_optim.recipe.errors import shown

# How the CDK writes a token in text (aws-cdk-lib/core/lib/private/encoding.ts).
TOKEN = re.compile(r"\$\{Token\[[a-zA-Z0-9:._-]+\]\}")
"""A token in text."""
# A token that is a number is a large one; and of large numbers JavaScript writes other digits than Python.
_LARGE_NUMBER = "e+"

_Child = TypeVar("_Child", bound=Construct)
_Kept = TypeVar("_Kept")


def is_token(text: object) -> bool:
    """Whether text holds a token: what ``Token.is_unresolved`` says of text, without a round trip."""
    return isinstance(text, str) and "${Token[" in text and TOKEN.search(text) is not None


class PseudoParameters:
    """The tokens of CloudFormation's own parameters, which are the same in all apps."""

    @cached_property
    def account(self) -> str:
        """``AWS::AccountId``."""
        return Aws.ACCOUNT_ID

    @cached_property
    def partition(self) -> str:
        """``AWS::Partition``."""
        return Aws.PARTITION

    @cached_property
    def region(self) -> str:
        """``AWS::Region``: a template that is deployed elsewhere shows what is there."""
        return Aws.REGION

    @cached_property
    def stack_id(self) -> str:
        """``AWS::StackId``."""
        return Aws.STACK_ID

    @cached_property
    def url_suffix(self) -> str:
        """``AWS::URLSuffix``."""
        return Aws.URL_SUFFIX


PSEUDO = PseudoParameters()


class StackFacts:
    """A stack, and what does not change about it. Use :func:`facts_of`."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self._children: dict[str, Any] = {}
        self._kept: dict[type, Any] = {}
        self._resolved: dict[str, Any] = {}

    @cached_property
    def region(self) -> str:
        """The stack's region; a token where it may be deployed to any."""
        return self.stack.region

    @property
    def known_region(self) -> str | None:
        """The stack's region; None where it may be deployed to any."""
        return None if is_token(self.region) else self.region

    @cached_property
    def account(self) -> str:
        """The stack's account; a token where it may be deployed to any."""
        return self.stack.account

    @cached_property
    def name(self) -> str:
        """The stack's name; a token for a nested stack."""
        return self.stack.stack_name

    @cached_property
    def stack_id(self) -> str:
        """The stack's ARN (a token)."""
        return self.stack.stack_id

    @cached_property
    def uuid(self) -> str:
        """The last part of the stack's ARN, which no other stack has (a token)."""
        return Fn.select(2, Fn.split("/", self.stack_id))

    def resolved_text(self, text: str) -> Any:
        """Text with what its tokens stand for, as ``stack.resolve`` gives it."""
        if not is_token(text):
            return text
        if text not in self._resolved:
            self._resolved[text] = self.stack.resolve(text)
        return self._resolved[text]

    def once(self, kind: type[_Kept], create: Callable[[Stack], _Kept]) -> _Kept:
        """What a stack has one of, created on first use."""
        if kind not in self._kept:
            self._kept[kind] = create(self.stack)
        return self._kept[kind]

    def child(self, id: str, kind: type[_Child], create: Callable[[Stack, str], _Child]) -> _Child:
        """The stack's own construct of that id and kind, created on first use."""
        if id not in self._children:
            found = self.stack.node.try_find_child(id)
            self._children[id] = found if isinstance(found, kind) else create(self.stack, id)
        return self._children[id]


_facts: WeakKeyDictionary[IConstruct, StackFacts] = WeakKeyDictionary()
_paths: WeakKeyDictionary[IConstruct, str] = WeakKeyDictionary()


def facts_of(scope: IConstruct) -> StackFacts:
    """What is known of ``scope``'s stack."""
    known = _facts.get(scope) if hasattr(type(scope), "node") else None
    if known is None:
        # A stack is in no other: a nested one is its own as well.
        stack = scope if isinstance(scope, Stack) else _stack_of(scope)
        known = _facts.get(stack)
        if known is None:
            known = _facts[stack] = StackFacts(stack)
        _facts[scope] = known
    return known


def _stack_of(scope: IConstruct) -> Stack:
    try:
        return Stack.of(scope)
    except (RuntimeError, TypeError):
        what = f"{type(scope).__name__} {scope.node.path!r}" if hasattr(type(scope), "node") else shown(scope)
        # Not from the CDK's own, whose frames are of Node.
        raise ValueError(
            f"scope is {what}, and resources belong to a stack: give a Stack, or a construct below one, for instance "
            'OptimizedEndpoint(Stack(app, "Chat"), "Llama70B", ...)'
        ) from None


def path_of(construct: IConstruct) -> str:
    """A construct's path in its app, as ``construct.node.path`` has it."""
    known = _paths.get(construct)
    if known is None:
        known = _paths[construct] = construct.node.path
    return known


def placed(construct: Construct, scope: IConstruct, id: str) -> None:
    """Note where a construct was just created: neither its stack nor its path has to be asked for again."""
    _facts[construct] = facts_of(scope)
    above = path_of(scope)
    # As constructs.Node has it: separators in an id are not the path's, and the app's own id is empty.
    own = re.sub(r"[/\n]", "--", id)
    _paths[construct] = f"{above}/{own}" if above else own


_answers: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def answer(of: object, attribute: str) -> Any:
    """An attribute of a CDK object that cannot change, such as an ARN or a reference, asked for once."""
    known = _answers.setdefault(of, {})
    if attribute not in known:
        known[attribute] = getattr(of, attribute)
    return known[attribute]


def resolved(scope: IConstruct, value: Any) -> Any:
    """A value of JSON with what its tokens stand for, as ``stack.resolve`` gives it; plain values are as they are."""
    text = json.dumps(value)
    if "Token[" in text or _LARGE_NUMBER in text or "null" in text:
        return facts_of(scope).stack.resolve(value)
    return _as_json_has_it(value)


def _as_json_has_it(value: Any) -> Any:
    """Numbers as JavaScript writes them: it has one kind, and 1.0 is 1."""
    if isinstance(value, Mapping):
        return {name: _as_json_has_it(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json_has_it(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

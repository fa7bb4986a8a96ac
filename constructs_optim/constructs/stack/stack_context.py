"""The stack of a construct: its Region, name and singletons; and tokens.

Reading an attribute of a CDK object is a call to Node, so this module caches the values that all constructs of a stack
read. They cannot change: a construct's stack and path, and a stack's name, account and Region are fixed at creation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import jsii
from aws_cdk import Aws, CfnResource, Fn, IAnyProducer, IResolvable, IResolveContext, Lazy, Stack, Token
from constructs import Construct, IConstruct

from constructs_optim.recipe.errors import shown
from constructs_optim.recipe.hosting.arns import ArnKind, ArnUse
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.tokens import is_token

_Created = TypeVar("_Created")


class PseudoParameters:
    """Tokens of CloudFormation's pseudo parameters, which are the same in all apps and read only once."""

    account = cached_property(lambda _: Aws.ACCOUNT_ID)
    partition = cached_property(lambda _: Aws.PARTITION)
    region = cached_property(lambda _: Aws.REGION)
    stack_id = cached_property(lambda _: Aws.STACK_ID)


PSEUDO = PseudoParameters()


class StackContext:
    """A stack's constant values and singletons. Use ``of``."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.is_reusable = False
        """Whether any number of stacks can have the template, so that its names may not contain a stack's name."""
        self._created: dict[Hashable, Any] = {}

    @staticmethod
    def of(scope: IConstruct) -> StackContext:
        """Return the context of ``scope``'s stack."""
        known = _contexts.get(scope) if isinstance(scope, Construct) else None
        if known is None:
            # A nested stack is a stack of its own.
            stack = scope if isinstance(scope, Stack) else _stack_of(scope)
            known = _contexts.get(stack)
            if known is None:
                known = _contexts[stack] = StackContext(stack)
            _contexts[scope] = known
        return known

    @staticmethod
    def latest() -> Stack | None:
        """Return the stack that the library used last, or None."""
        return next((context.stack for context in reversed(list(_contexts.values()))), None)

    @cached_property
    def known_region(self) -> str | None:
        """The stack's Region; None for an environment-agnostic stack."""
        region = self.stack.region
        return None if is_token(region) else region

    @cached_property
    def known_account(self) -> str | None:
        """The stack's account; None for an environment-agnostic stack."""
        account = self.stack.account
        return None if is_token(account) else account

    @cached_property
    def known_partition(self) -> str | None:
        """The partition of the stack's Region; None for an environment-agnostic stack."""
        partition = self.stack.partition
        return None if is_token(partition) else partition

    def arn_use(self, location: str, kind: ArnKind, arn: str) -> ArnUse:
        """Return an ARN that a construct of the stack uses, for the rules."""
        return ArnUse(location, kind, arn, self.known_partition, self.known_region, self.known_account)

    @cached_property
    def known_name(self) -> str | None:
        """The stack's name; None for a nested stack, and for a reusable template."""
        name = self.stack.stack_name
        return None if self.is_reusable or is_token(name) else name

    @cached_property
    def uuid(self) -> str:
        """The last part of the stack's ARN, which is unique (a token)."""
        return Fn.select(2, Fn.split("/", self.stack.stack_id))

    def resolve(self, text: str) -> Any:
        """Resolve text with ``stack.resolve``: return the intrinsic functions of its tokens."""
        return self.stack.resolve(text) if is_token(text) else text

    def given(self, key: str) -> Any:
        """Return the stack's value of a context key, or None."""
        return self.once(("context key", key), lambda: self.stack.node.try_get_context(key))

    def once(self, key: Hashable, create: Callable[[], _Created]) -> _Created:
        """Return the stack's singleton for ``key``, created on first use."""
        if key not in self._created:
            self._created[key] = create()
        return self._created[key]


_contexts: WeakKeyDictionary[IConstruct, StackContext] = WeakKeyDictionary()
_paths: WeakKeyDictionary[IConstruct, str] = WeakKeyDictionary()


def _stack_of(scope: IConstruct) -> Stack:
    try:
        return Stack.of(scope)
    except (RuntimeError, TypeError):
        described = f"{type(scope).__name__} {scope.node.path!r}" if hasattr(type(scope), "node") else shown(scope)
        # The CDK's own error would only show Node's frames.
        raise ValueError(
            f"scope is {described}, and resources must be in a stack: pass a Stack, or a construct below one, for "
            'instance OptimizedEndpoint(Stack(app, "Chat"), "Llama70B", ...)'
        ) from None


def path_of(construct: IConstruct) -> str:
    """Return a construct's path in its app, as in ``construct.node.path``."""
    known = _paths.get(construct)
    if known is None:
        known = _paths[construct] = construct.node.path
    return known


@jsii.implements(IAnyProducer)
class _EachTime:
    def __init__(self, produce: Callable[[], Any]) -> None:
        self._produce = produce

    def produce(self, context: IResolveContext) -> Any:
        return self._produce()


def late_value(produce: Callable[[], Any]) -> IResolvable:
    """Return a value that is produced at each resolution, so that it is never outdated."""
    return Lazy.uncached_any(_EachTime(produce))


def late_text(produce: Callable[[], Any]) -> str:
    """Return a token for text that is produced once, at synthesis. ``produce`` may return an intrinsic function."""
    return Token.as_string(late_value(cache(produce)))


def endpoint_name_of(scope: Construct, id: str, name: str | None, ending: str) -> str:
    """Return the name of the endpoint ``id`` in ``scope``: ``name``, unique in its stack, or one from its path."""
    if name is None:
        return physical_name(scope, id, ending)
    if not is_token(name):
        # Endpoint names are case-insensitive (Amazon SageMaker API reference, CreateEndpoint).
        names = StackContext.of(scope).once("endpoint names", dict[str, tuple[Construct, str]])
        first, first_id = names.get(name.lower(), (scope, id))
        if (first, first_id) != (scope, id) and first.node.try_find_child(first_id) is not None:
            raise ValueError(
                f"endpoint_name is {name!r}, and {path_of(first)}/{first_id} already has this name: endpoint names are "
                f"unique in an account and Region, regardless of case. Set another for {path_of(scope)}/{id}, or leave "
                "it out to generate one from its path"
            )
        names[name.lower()] = scope, id
    return name


@dataclass(frozen=True)
class GeneratedName:
    """A generated name, and the pattern in ARNs of this name and those of its replacements."""

    name: str
    pattern: str


def physical_name(scope: Construct, id: str, ending: str = "") -> str:
    """Return the generated name for the child ``id`` of ``scope``; see ``generated_name``."""
    return generated_name(scope, id, ending).name


def generated_name(scope: Construct, id: str, ending: str) -> GeneratedName:
    """Return a name for the child ``id`` of ``scope``, known before it exists and unique in its account and Region.

    A resource that cannot change in place has a suffix (``ending``) of seven characters, which its replacement changes.

    An endpoint names the alarms that roll back its updates, and they name the endpoint. CloudFormation cannot create
    resources that refer to each other, so one of them has an explicit name, which only changes with its path in the
    app. It is in lower case, as in SageMaker's ARNs, so that CloudWatch and Application Auto Scaling always get the
    same name. It contains the stack's name or, if that is not known, the last part of the stack's ID.
    """
    context = StackContext.of(scope)
    within = path_of(scope).removeprefix(path_of(context.stack)).strip("/")
    parts = [*within.split("/"), id] if within else [id]
    stack_name = context.known_name
    if stack_name is not None:
        parts = [stack_name, *parts]
    # 63 characters, less 9 of the hash, and 37 of a hyphen and a UUID.
    longest = (17 if stack_name is None else 54) - len(ending)
    words = "-".join(filter(None, (re.sub(r"[^a-zA-Z0-9-]", "", part).strip("-") for part in parts)))
    base = f"{words.lower()[:longest].rstrip('-')}-{sha256('/'.join(parts))[:8]}"
    end = ending if stack_name is not None else f"{ending}-{context.uuid}"
    return GeneratedName(f"{base}{end}", f"{base}-*")


def properties_of(resource: CfnResource) -> Mapping[str, Any]:
    """Return the properties of a resource, in camel case and with tokens.

    The resource's attributes do not work here: through them, jsii returns an empty structure for values that are not
    rendered yet.
    """
    return resource._cfn_properties  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

"""An organization's defaults: support for the CDK's property injectors in constructs written in Python.

The CDK's decorator of TypeScript classes does the same (aws-cdk-lib, ``core/lib/prop-injectable.ts``): the injector of
the nearest parent scope applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from aws_cdk import PropertyInjectors
from constructs import Construct, IConstruct

from .arguments import check_names

_Class = TypeVar("_Class", bound=type)
_scopes: WeakKeyDictionary[Construct, list[IConstruct]] = WeakKeyDictionary()


def property_injectable(cls: _Class) -> _Class:
    """Let an injector, if there is one, change the keyword arguments of a class with a ``PROPERTY_INJECTION_ID``.

    The injector's ``inject`` receives the given arguments by their Python names, and returns the arguments to use.
    """
    constructor: Callable[..., None] = vars(cls)["__init__"]
    unique_id: str = vars(cls)["PROPERTY_INJECTION_ID"]

    @wraps(constructor)
    def injecting(self: object, scope: Any, id: Any, **given: Any) -> None:
        injector = _injector(scope, unique_id) if isinstance(scope, Construct) else None
        if injector is not None:
            injected = injector.inject(given, scope=scope, id=id)
            name = f"{type(injector).__name__}.inject"
            if not isinstance(injected, Mapping):
                raise TypeError(
                    f"{name} returned {injected!r}, and {cls.__name__} needs a mapping of argument names to values, "
                    'such as {"encryption_key": key, **original_props}'
                )
            given = dict(cast("Mapping[str, Any]", injected))
            check_names(name, given, constructor)
        constructor(self, scope, id, **given)

    setattr(cls, "__init__", injecting)  # noqa: B010 - a type checker takes it for an instance's
    return cls


def _injector(scope: Construct, unique_id: str) -> Any:
    """Return the nearest injector for a class in a scope."""
    scopes = _scopes.get(scope)
    if scopes is None:
        scopes = _scopes[scope] = scope.node.scopes
    for above in reversed(scopes):
        if PropertyInjectors.has_property_injectors(above):
            injector = PropertyInjectors.of(above).for_(unique_id)
            if injector is not None:
                return injector
    return None

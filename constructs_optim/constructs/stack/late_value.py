"""Properties that are written when the template is: what grows with each endpoint crosses to Node once, whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsii
from aws_cdk import IAnyProducer, IResolvable, IResolveContext, IStableAnyProducer, Lazy, Token


@jsii.implements(IStableAnyProducer)
class _Once:
    def __init__(self, produce: Callable[[], Any]) -> None:
        self._produce = produce

    def produce(self) -> Any:
        return self._produce()


@jsii.implements(IAnyProducer)
class _EachTime:
    def __init__(self, produce: Callable[[], Any]) -> None:
        self._produce = produce

    def produce(self, context: IResolveContext) -> Any:
        return self._produce()


def late_text(produce: Callable[[], Any]) -> str:
    """Text that is asked for once, at synthesis (a token). ``produce`` may give an intrinsic function."""
    return Token.as_string(Lazy.any(_Once(produce)))


def late_value(produce: Callable[[], Any]) -> IResolvable:
    """A value that is asked for whenever something looks at it, so that it is never older than what it was made of."""
    return Lazy.uncached_any(_EachTime(produce))

"""The classes of commands, with help texts and error handling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from .aws import errors_explained

# Longer lists of choices do not fit a terminal of 80 columns: the option's help has them.
_LONGEST = 20


class _Help:
    """Sets the metavars of all options, as typer's defaults differ between its releases."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if isinstance(param, TyperOption) and param.metavar is None:
                param.metavar = _value_name(param)
            elif isinstance(param, TyperArgument):
                # Its name and help suffice.
                param.display_type_rich = lambda ctx: None
        return params

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole first sentence."""
        del limit
        return super().get_short_help_str(10_000)  # type: ignore[misc]


def _value_name(option: TyperOption) -> str:
    if option.is_flag or option.name == "help":
        return ""
    described: Any = getattr(option, "type_descriptor", None) or getattr(option, "type", None)
    choices = [str(getattr(choice, "value", choice)) for choice in getattr(described, "choices", None) or ()]
    listed = "|".join(choices)
    if choices and len(listed) <= _LONGEST:
        return listed
    return max(option.opts, key=len).rpartition("-")[2].upper()


class _Command(_Help, TyperCommand):
    def invoke(self, ctx: Any) -> Any:
        with errors_explained():
            return super().invoke(ctx)


class _Group(_Help, TyperGroup): ...


class Commands(typer.Typer):
    """A group of commands, which shows its help without a command."""

    def __init__(self, **settings: Any) -> None:
        # typer's boxes truncate long options in a terminal of 80 columns.
        super().__init__(cls=_Group, no_args_is_help=True, rich_markup_mode=None, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add a command, as :meth:`typer.Typer.command` does."""
        return super().command(name, cls=_Command, **settings)

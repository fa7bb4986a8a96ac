"""The classes of commands, with help texts and error handling."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import typer
from rich.console import Console
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from constructs_optim.explanation.formatting import wrapped
from constructs_optim.recipe.errors import close_matches

from .aws import AWS_PANEL, errors_explained
from .presentation import OUTPUT_PANEL, terminal_width

# Longer lists of choices do not fit into a terminal of 80 columns, so the option's help lists them.
_LONGEST = 20
# typer's ranges, in words.
_RANGES = ((r"([\d.]+)<=x<=([\d.]+)", r"\1 to \2"), (r"x>=([\d.]+)", r"at least \1"))
# Click's, of which typer has its own copy.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__bases__[0])
# typer's message about a value that is no choice.
_CHOICES = re.compile(r"'(?P<given>.*)' is not one of (?P<choices>.*)\.")
# pydantic's prefix of a message, which typer leaves.
_TYPE_OF_ERROR = "Value error, "
# typer's prefix of a message.
_INVALID = "Error: Invalid value for '--instance-type': "
# Keeps program names and options from breaking at their hyphens.
_HYPHEN = "\N{NON-BREAKING HYPHEN}"
# Splits a docstring before a section such as "Examples:", whose lines are indented.
_SECTION = re.compile(r"\n\n(?=[A-Z][a-z ]+:\n    )")


class _Help:
    """Help in sections without typer's boxes, which truncate long options at 80 columns."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            # typer's defaults differ between releases.
            if isinstance(param, TyperOption) and param.metavar is None:
                param.metavar = _value_name(param)
            elif isinstance(param, TyperArgument):
                name = param.metavar = param.metavar or str(param.name).upper()
                piece = (name if param.required else f"[{name}]") + ("..." if param.nargs == -1 else "")
                param.get_usage_pieces = lambda ctx, piece=piece: [piece]
                # The argument's name and help suffice.
                param.display_type_rich = lambda ctx: None
        return params

    def make_context(self, *given: Any, **named: Any) -> Any:
        """Parse arguments, and wrap the message about an invalid value."""
        try:
            with _wrapped_message():
                return super().make_context(*given, **named)  # type: ignore[misc]
        except _UsageError as error:
            others = [param.metavar for param in self.params if str(param.metavar).startswith("-- ")]  # type: ignore[attr-defined]
            is_misspelled = bool(getattr(error, "possibilities", None))
            if others and not is_misspelled and (unknown := getattr(error, "option_name", None)):
                error.message += f". Other options go after --: constructs-optim {given[0]} FILE -- {unknown}"
            raise

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole first sentence."""
        del limit
        return super().get_short_help_str(10_000)  # type: ignore[misc]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the description, without the sections that ``format_epilog`` writes."""
        del ctx
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(_unbroken(self._parts()[0]))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each ``rich_help_panel``, with the panels that most commands share last."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                own = "Arguments" if isinstance(param, TyperArgument) else "Options"
                name, text = record
                for pattern, words in _RANGES:
                    text = re.sub(pattern, words, text)
                panels.setdefault(param.rich_help_panel or own, []).append((name, _unbroken(text)))
        last = [*([] if len(panels["Options"]) > 1 else ["Options"]), AWS_PANEL, OUTPUT_PANEL]
        for heading, records in sorted(panels.items(), key=lambda item: item[0] in last and 1 + last.index(item[0])):
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the docstring's examples and other sections verbatim."""
        del ctx
        for section in self._parts()[1:]:
            heading, *lines = (line.removeprefix("    ") for line in section.rstrip().splitlines())
            with formatter.section(heading.removesuffix(":")):
                for line, following in zip(lines, [*lines[1:], ""], strict=True):
                    # The command continues in an indented line.
                    end = " \\" if heading == "Examples:" and following.startswith(" ") else ""
                    formatter.write(f"  {line}{end}\n")

    def get_help(self, ctx: Any) -> str:
        """Return the help, with bold headings on a terminal."""
        text = super().get_help(ctx).replace(_HYPHEN, "-")  # type: ignore[misc]
        if not Console().is_terminal:
            return text
        return re.sub(r"^(Usage|[A-Z][A-Za-z ]+)(?=:(\s|$))", "\x1b[1m\\1\x1b[0m", text, flags=re.MULTILINE)

    def _parts(self) -> list[str]:
        return _SECTION.split(inspect.cleandoc(getattr(self, "help", None) or ""))


@contextmanager
def _wrapped_message() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        error.message = _with_similar_choice(error.message.removeprefix(_TYPE_OF_ERROR))
        if len(error.message) > (limit := terminal_width(err=True)) - len(_INVALID):
            error.message = wrapped(error.message, limit, indent=_INVALID).removeprefix(_INVALID)
        raise


def _with_similar_choice(message: str) -> str:
    """Return a message with a question that names similar choices, if the message lists choices."""
    found = _CHOICES.fullmatch(message)
    near = close_matches(found["given"], re.findall(r"'([^']*)'", found["choices"])) if found else []
    return f"{message} Did you mean {' or '.join(near)}?" if near else message


def _unbroken(text: str) -> str:
    return text.replace("-", _HYPHEN)


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
        with errors_explained(), _wrapped_message():
            return super().invoke(ctx)


class _Group(_Help, TyperGroup):
    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by ``rich_help_panel``."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            panels.setdefault(command.rich_help_panel or "Commands", []).append(
                (name, _unbroken(command.get_short_help_str()))
            )
        for heading, records in panels.items():
            with formatter.section(heading):
                formatter.write_dl(records, col_max=20)


class Commands(typer.Typer):
    """A group of commands, which shows its help if no command is given."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, no_args_is_help=True, rich_markup_mode=None, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add a command, as ``typer.Typer.command`` does."""
        return super().command(name, cls=_Command, **settings)

"""Rules for variables that a container does not read, or with which SageMaker does not reach it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from constructs_optim.recipe.catalog import server_variables
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.secrets import NOT_SHOWN, kind_of_secret
from constructs_optim.recipe.servers import LmiServer, ServerSettings, SglangServer, VllmServer, by_name
from constructs_optim.recipe.tokens import is_token

from .registry import GUIDE, Finding, rule

_SCRIPTS = "https://github.com/aws/deep-learning-containers/tree/master/scripts/docker"
_COMMAND_LINES = (VllmServer.name, SglangServer.name)
# Of names that are less alike, most are no misspellings.
_ALIKE = 0.86
_MOST_EDITS = 2
_SHORTEST = 6
# Names that differ in these words are of different variables. Other opposites, such as ENABLE and DISABLE, are less
# alike.
_OPPOSITES = {"MAX", "MIN"}
_DIGITS = re.compile(r"\d+")
# Arguments of engines whose names, without a prefix, are those of variables of other programs too.
_COMMON = re.compile(r"[A-Z]+|(API|HF|LMCACHE|LOG|MASTER|NODE|ROOT|S3|TASK)_\w+|BLOCK_SIZE|CHAT_TEMPLATE|DOWNLOAD_DIR")
# vLLM, entrypoints/cli/serve.py: the container starts the API server's module instead, which ignores them.
_OF_VLLM_SERVE = frozenset({"api_server_count", "grpc", "headless"})
# vLLM's arguments that are on unless they are turned off (vLLM 0.24 to 0.30, config/cache.py and config/scheduler.py).
_ON = frozenset({"async_scheduling", "enable_chunked_prefill", "enable_prefix_caching"})
_PORT = "8080"
_EVERYWHERE = frozenset({"0.0.0.0", "::", "[::]"})  # noqa: S104 - what SageMaker needs


class _Unread(NamedTuple):
    """Why a server does not read a variable, and what to do."""

    reason: str
    fix: str


@rule("OPT260", _SCRIPTS, advisory=True)
def _the_container_reads_the_variable(recipe: Recipe) -> Iterator[Finding]:
    """The container reads a variable: its server ignores a variable of another server, or a misspelled one, and its
    entry point leaves out those whose value is false.
    """
    if any(technique.hub_configuration for _, technique in recipe.located_techniques):
        return
    server, release = type(recipe.serving_settings), recipe.engine
    for name, value in recipe.variables.items():
        unread = _left_out(server, name, value) or _unread(server, release, name)
        if unread is not None:
            shown = NOT_SHOWN if kind_of_secret(name, value) is not None else value
            yield Finding(f"environment.{name}", shown, unread.fix, unread.reason)


@lru_cache(maxsize=4096)
def _unread(server: type[ServerSettings], release: str | None, name: str) -> _Unread | None:
    """Return why a server does not read a variable, if that is known."""
    own = _own(server, release)
    if name in own or server_variables.is_read(server.name, name):
        return _ignored(server, name)
    if server.name in _COMMAND_LINES and name.startswith(server.prefix):
        # OPT029 checks the arguments of known releases.
        return None
    others = [other for other in by_name().values() if other.name != server.name]
    if any(other.prefix and name.startswith(other.prefix) for other in others):
        # OPT038 refuses them.
        return None
    reading = [other for other in others if server_variables.is_read(other.name, name)]
    titles = [other.title for other in reading]
    if not titles and server.name in _COMMAND_LINES:
        # Other containers may read those of toolkits.
        titles = server_variables.toolkits_with(name)
    ignores = f"{server.title} ignores it"
    belongs = f"{ignores}: it is a variable of {' and '.join(titles)}"
    if titles and (row := server_variables.counterparts().get(name)) is not None:
        return _Unread(belongs, _counterpart(server, reading, row, own))
    covered = server_variables.covers(server.name, release, name)
    of_the_engine = name.upper().startswith(("VLLM_", "OPTION_"))
    if of_the_engine and not covered and server.name in (VllmServer.name, LmiServer.name):
        # The engine may read variables that are not listed.
        return None
    meant = _meant(server, release, name, own) if covered or not of_the_engine else None
    if meant is not None and (covered or meant in own):
        return _Unread(f"{ignores}, and reads {meant}", f"Did you mean {meant}?")
    if reading:
        meant = f"{server.prefix}{name}"
        return _Unread(belongs, _set(meant if meant in own and meant != name else None, reading))
    if not covered or len(name) < _SHORTEST:
        return None
    close = difflib.get_close_matches(name.upper(), own, n=2, cutoff=_ALIKE)
    if near := [known for known in close if _is_misspelled(name.upper(), known)]:
        return _Unread(f"{ignores}: it reads no variable of this name", f"Did you mean {' or '.join(near)}?")
    return None


def _left_out(server: type[ServerSettings], name: str, value: str) -> _Unread | None:
    """Return why a value that is false does not turn off what the engine does by default."""
    argument = name.removeprefix(server.prefix).lower()
    if server.name != VllmServer.name or argument not in _ON or value.strip().lower() != "false":
        return None
    reason = "the container's entry point leaves a variable out whose value is false, and vLLM does this by default"
    return _Unread(reason, f"Set {server.prefix}NO_{argument.upper()} to true instead")


def _is_misspelled(name: str, known: str) -> bool:
    """Return whether a name is a known one with a wrong letter or two, and not the name of another variable."""
    if _DIGITS.sub("", known) == _DIGITS.sub("", name):
        return False
    given, meant = set(name.split("_")), set(known.split("_"))
    if given ^ meant >= _OPPOSITES:
        return False
    return _edits(name, known) <= _MOST_EDITS


def _edits(one: str, other: str) -> int:
    """Return how many letters to add, remove or replace to get from one text to the other."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, start=1):
        before, row = row, [number]
        for index, each in enumerate(other):
            row.append(min(before[index] + (letter != each), before[index + 1] + 1, row[index] + 1))
    return row[-1]


@cache
def _own(server: type[ServerSettings], release: str | None) -> frozenset[str]:
    """Return the variables that a server reads, with those for all arguments of its engine."""
    arguments = server_variables.arguments_of(server.name, release)
    renamed = {server.variable(argument) for argument in server.renamed}
    prefixed = {f"{server.prefix}{argument}" for argument in arguments} if server.prefix else set[str]()
    own = {*server_variables.read_by(server.name), *prefixed, *renamed, *server.fixed, server.any_length}
    return frozenset(own - {""})


def _ignored(server: type[ServerSettings], name: str) -> _Unread | None:
    """Return why a server's engine ignores an argument that its parser has."""
    argument = name.removeprefix(server.prefix).lower()
    if server.name != VllmServer.name or not name.startswith(server.prefix) or argument not in _OF_VLLM_SERVE:
        return None
    reason = f"the container starts vLLM's API server without `vllm serve`, which alone reads --{argument}"
    return _Unread(reason.replace("_", "-"), "Leave it out")


def _meant(server: type[ServerSettings], release: str | None, name: str, own: frozenset[str]) -> str | None:
    """Return the variable with the same name in capitals, or with the server's prefix."""
    capitals = name.upper()
    if capitals in own:
        return capitals
    argument = capitals.removeprefix("VLLM_").removeprefix("SGLANG_").removeprefix("SM_")
    if argument == capitals and _COMMON.fullmatch(argument):
        return None
    if argument.lower() in server.renamed:
        return server.variable(argument.lower())
    return (
        f"{server.prefix}{argument}"
        if server.prefix and argument in server_variables.arguments_of(server.name, release)
        else None
    )


def _counterpart(
    server: type[ServerSettings],
    reading: Sequence[type[ServerSettings]],
    row: server_variables.Counterpart,
    own: frozenset[str],
) -> str:
    """Return what does the same as a variable of other servers or toolkits."""
    argument = row.argument_of(server.name)
    if argument is not None and (variable := server.variable(argument)) in own:
        return _set(f"{variable}, {row.meaning}" if row.meaning else variable, reading)
    return f"Leave it out: {row.instead}" if row.instead else _set(None, reading)


def _set(meant: str | None, reading: Sequence[type[ServerSettings]]) -> str:
    """Return a fix: the variable to set, if any, and the servers that read the given one."""
    servers = " or ".join(f"{other.display_name()}()" for other in reading)
    first = f"Set {meant}, or leave it out" if meant is not None else "Leave it out"
    return f"{first}, or set server={servers}" if servers else first


@rule("OPT262", f"{GUIDE}your-algorithms-inference-code.html")
def _sagemaker_reaches_the_server(recipe: Recipe) -> Iterator[Finding]:
    """SageMaker calls the server at its port: SageMaker calls a container by HTTP at port 8080, from outside of it."""
    server = recipe.serving_settings
    if server.name not in _COMMAND_LINES:
        return
    for name, value in recipe.variables.items():
        # The entry points leave an argument out whose value is "false".
        if not name.startswith(server.prefix) or is_token(value) or value.strip().lower() == "false":
            continue
        if (fix := _reaching(name.removeprefix(server.prefix).lower(), value.strip())) is not None:
            yield Finding(f"environment.{name}", value, fix)


def _reaching(argument: str, value: str) -> str | None:
    """Return with which value of an argument SageMaker reaches the server; None if it does with the given one."""
    if argument == "port":
        # OPT029 refuses what is no number.
        return f"{_PORT}, or leave it out" if value.isdecimal() and int(value) != int(_PORT) else None
    if argument == "host":
        return "0.0.0.0, or leave it out" if value not in _EVERYWHERE else None
    if argument == "uds":
        return "leave it out: with a socket in a file, the server has no port"
    if argument in ("ssl_certfile", "ssl_keyfile"):
        return "leave it out: clients reach SageMaker by HTTPS, and SageMaker the container by HTTP"
    return None

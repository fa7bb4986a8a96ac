"""The variables that each server's container reads, besides those for arguments of its engine, and what those of other
servers are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from pydantic import BaseModel

from . import engine_arguments, load

_ENGINE_OF_LMI = "vllm"


class Counterpart(BaseModel, frozen=True, extra="forbid"):
    """What does on other servers what variables of one server or toolkit do.

    Attributes:
        names: the variables, which mean the same.
        argument: the engine argument, by vLLM's name; None if only the servers in ``arguments`` have one.
        arguments: the engine arguments of servers whose own differ, by the server's name.
        meaning: how the argument differs from the variable; empty if it does not.
        instead: where the same is decided on a server without such an argument; empty if nowhere.
        source: where the variables are documented.
    """

    names: tuple[str, ...]
    argument: str | None = None
    arguments: Mapping[str, str] = {}
    meaning: str = ""
    instead: str = ""
    source: str

    def argument_of(self, server: str) -> str | None:
        """Return the engine argument of a server, by vLLM's name or its own."""
        return self.arguments.get(server, self.argument)


@cache
def counterparts() -> Mapping[str, Counterpart]:
    """Return the counterparts of variables, by the names of the variables."""
    rows = map(Counterpart.model_validate, load("server_variables")["counterparts"])
    return {name: row for row in rows for name in row.names}


def toolkits_with(name: str) -> list[str]:
    """Return the toolkits of other containers that read a variable."""
    toolkits: dict[str, list[str]] = load("server_variables")["toolkits"]
    return [toolkit for toolkit, names in toolkits.items() if name in names]


@cache
def read_by(server: str) -> frozenset[str]:
    """Return the names of variables that a server reads."""
    names: dict[str, list[str]] = load("server_variables")["variables"]
    of_engine = names[_ENGINE_OF_LMI] if server == "lmi" else []
    return frozenset((*names.get(server, ()), *of_engine))


def is_read(server: str, name: str) -> bool:
    """Return whether a server reads a variable."""
    prefixes: dict[str, list[str]] = load("server_variables")["prefixes"]
    return name in read_by(server) or name.startswith(tuple(prefixes.get(server, ())))


def covers(server: str, release: str | None, name: str) -> bool:
    """Return whether all variables like ``name`` that this release of a server's engine reads are known.

    A release may read VLLM_ variables that only it has, and Large Model Inference passes OPTION_ ones to the engine.
    """
    engine = _ENGINE_OF_LMI if server == "lmi" else server
    if name.upper().startswith("VLLM_"):
        releases: dict[str, list[str]] = load("server_variables")["releases"]
        return release in releases.get(engine, ())
    has_arguments = engine in load("engine_arguments")["engines"]
    return not has_arguments or engine_arguments.of_release(engine, release) is not None


@cache
def arguments_of(server: str, release: str | None) -> frozenset[str]:
    """Return the names of a server's engine arguments, as variables without a prefix.

    Of an unknown release, the newest known ones; of Large Model Inference, those of all releases, because it ignores
    unknown ones.
    """
    engine = _ENGINE_OF_LMI if server == "lmi" else server
    engines = load("engine_arguments")["engines"]
    if engine not in engines:
        return frozenset()
    known = engine_arguments.of_release(engine, release) or engine_arguments.of_newest(engine)
    rows: Iterable[str] = engines[engine]["arguments"] if server == "lmi" else known.rows
    return frozenset(name.upper() for name in rows)

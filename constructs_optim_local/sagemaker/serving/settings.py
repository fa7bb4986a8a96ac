"""The command lines and time limits of model servers."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .entry_points import options

LIGHT_SERVER = (
    f"{shlex.quote(sys.executable)} -m constructs_optim_local.light_server {{arguments}} --model {{model}} "
    "--host 127.0.0.1 --port {port}"
)
"""The command line of the server that comes with this package."""


@dataclass(frozen=True)
class ServingSettings:
    """How to run model servers.

    Attributes:
        command: a server's command line, in which ``{arguments}``, ``{model}`` and ``{port}`` are replaced by the
            options that AWS's container derives from the plan's variables, the model's folder and the port to listen
            on. Default: the light server.
        folder: the folder of the servers' files.
        environment: variables that servers inherit.
        cloud: returns variables that point a server's SDK at an account and Region of this cloud.
        log: adds lines to a stream of a log group of an account and Region.
        collect: stores the engine metrics that a server exposes, with labels, for an account and Region.
        scale: real seconds for each second between two collections.
        response_seconds: time limit of a response. Source: API reference, InvokeEndpoint ("must respond to requests
            within 60 seconds").
        stream_seconds: time limit of a streamed response. Source: developer guide, "Inference options" (8 minutes).
        stop_seconds: seconds from SIGTERM to SIGKILL. Source: developer guide, "How SageMaker AI runs your inference
            image" (30 seconds).
    """

    command: str = LIGHT_SERVER
    folder: Path = Path()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    cloud: Callable[[str, str], Mapping[str, str]] = lambda account, region: {}
    log: Callable[[str, str, str, str, Sequence[str]], None] = lambda account, region, group, stream, lines: None
    collect: Callable[[str, str, str, Mapping[str, str]], None] = lambda account, region, text, labels: None
    scale: float = 1.0
    response_seconds: float = 60.0
    stream_seconds: float = 480.0
    stop_seconds: float = 30.0

    def words(self, variables: Mapping[str, str], model: Path, port: int, image: str | None = None) -> list[str]:
        """Return the command of a container of ``image`` with these variables."""
        found: list[str] = []
        for word in shlex.split(self.command):
            if word == "{arguments}":
                found += options(variables, image)
            else:
                found.append(word.replace("{model}", str(model)).replace("{port}", str(port)))
        return found


def problems(command: str) -> Iterator[str]:
    """Yield what is wrong with a server's command line."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        yield f"the command {command!r} is not valid shell syntax: {error}"
        return
    if not words or shutil.which(words[0]) is None:
        yield f"there is no program {words[0] if words else ''!r}: name a program on the PATH, or its file"
    if not any("{port}" in word for word in words):
        yield "the command has no {port}: pass the port to the program, for example with --port {port}"

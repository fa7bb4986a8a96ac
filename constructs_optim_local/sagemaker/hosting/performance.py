"""The speed and the outputs of served models, as synthetic numbers that a test can set.

Without a model server, there is nothing to measure. The defaults are plausible and constant: they improve with the
number of accelerators, degrade with the number of users, and ignore models and techniques. A ``Setting`` makes one
artifact slow and another fast; each read matches it against the model that an endpoint serves (``Served``).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from constructs_optim_local.api.error import validation_error

from .fleets import hardware

_PREFILL_MS_A_TOKEN = 0.25
_TTFT_MS, _ITL_MS = 60.0, 40.0
_CONTENTION, _SPREAD = 0.02, 0.1


@dataclass(frozen=True)
class Served:
    """The model that serves requests at one time.

    Attributes:
        name: the endpoint or inference component.
        instance_type: its instance type; None if no instance runs.
        texts: texts to match settings against: names, model data, images, and variables as ``NAME=value``.
        copies: number of copies that share the requests.
        image: its container's image; None if unknown.
    """

    name: str
    instance_type: str | None
    texts: tuple[str, ...]
    copies: int = 1
    image: str | None = None


@dataclass(frozen=True)
class Setting:
    """Performance figures of all models with ``match`` in one of their texts. None leaves a figure unchanged.

    Attributes:
        match: part of a text, for example an S3 prefix, an image or ``NAME=value``; empty for all models.
        ttft_ms: time to first token with one user, in milliseconds.
        itl_ms: inter-token latency with one user, in milliseconds.
        contention: relative growth of both latencies for each further user.
        spread: relative standard deviation of both latencies over the requests.
        error_rate: share of requests that fail.
        answers_differently: share of prompts whose outputs differ from those of models without this setting.
    """

    match: str = ""
    ttft_ms: float | None = None
    itl_ms: float | None = None
    contention: float | None = None
    spread: float | None = None
    error_rate: float | None = None
    answers_differently: float | None = None

    def problems(self) -> list[str]:
        """Return a message for each figure out of range."""
        numbers = {name: value for name, value in asdict(self).items() if name != "match" and value is not None}
        shares = ("error_rate", "answers_differently")
        return [
            f"{name} is {value!r}, and must be {'a share from 0 to 1' if name in shares else 'a number above zero'}"
            for name, value in numbers.items()
            if not isinstance(value, int | float)
            or isinstance(value, bool)
            or not (0 <= value <= 1 if name in shares else value > 0 or (value == 0 and name in _MAY_BE_ZERO))
        ]


_MAY_BE_ZERO = ("contention", "spread")


@dataclass(frozen=True)
class Performance:
    """The numbers of a served model. ``Setting`` describes them."""

    ttft_ms: float
    itl_ms: float
    contention: float = _CONTENTION
    spread: float = _SPREAD
    error_rate: float = 0.0
    answers_differently: float = 0.0

    def under(self, concurrency: float) -> tuple[float, float]:
        """Return time to first token and inter-token latency in milliseconds, for a number of concurrent users."""
        crowded = 1 + self.contention * max(0.0, concurrency - 1)
        return self.ttft_ms * crowded, self.itl_ms * crowded


class Performances:
    """The settings in the order they were set. Later ones override earlier ones."""

    def __init__(self) -> None:
        self._settings: list[Setting] = []

    def set(self, settings: dict[str, Any]) -> None:
        """Add a setting.

        Raises:
            ApiError: if the setting is invalid.
        """
        known = [member.name for member in fields(Setting)]
        if unknown := sorted(set(settings) - set(known)):
            raise validation_error(f"unknown settings {', '.join(unknown)}; use {', '.join(known)}")
        setting = Setting(**settings)
        if problems := setting.problems():
            raise validation_error(f"invalid settings: {'; '.join(problems)}")
        self._settings.append(setting)

    def clear(self) -> None:
        """Remove all settings."""
        self._settings.clear()

    def to_json(self) -> list[dict[str, Any]]:
        """Return the settings in order, as JSON objects."""
        return [asdict(setting) for setting in self._settings]

    def of(self, served: Served, input_tokens: float = 0.0) -> Performance:
        """Return a served model's numbers for prompts of a length. The last matching setting wins for each number."""
        numbers: dict[str, Any] = default(served.instance_type, input_tokens)
        for setting in self._settings:
            if any(setting.match in text for text in served.texts):
                values = asdict(setting)
                numbers |= {name: value for name, value in values.items() if name != "match" and value is not None}
        return Performance(**numbers)


def default(instance_type: str | None, input_tokens: float) -> dict[str, Any]:
    """Return the default numbers of an instance type."""
    room = hardware().get(instance_type or "")
    speed = math.sqrt(room.accelerators) if room is not None and room.accelerators else 1.0
    prefill = _PREFILL_MS_A_TOKEN * input_tokens
    return {"ttft_ms": (_TTFT_MS + prefill) / speed, "itl_ms": _ITL_MS / speed}


def tokens_of(text: str) -> int:
    """Estimate the number of tokens of a text: four characters each."""
    return max(1, math.ceil(len(text) / 4))


def share_of(text: str, *, about: str = "") -> float:
    """Return a text's hash as a number from 0 to 1, uniform over texts."""
    digest = hashlib.sha256(f"{about}\n{text}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def strings_of(value: Any) -> Iterable[str]:
    """Yield every text in a record of a model, with variables as ``NAME=value``."""
    match value:
        case dict():
            for key, item in value.items():
                if key == "Environment" and isinstance(item, dict):
                    yield from (f"{name}={text}" for name, text in item.items())
                else:
                    yield from strings_of(item)
        case list():
            for item in value:
                yield from strings_of(item)
        case str():
            yield value
        case _:
            pass

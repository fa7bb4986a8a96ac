"""The speed and the outputs of served models: synthetic numbers, which a test can set.

Where no model server runs, nothing can be measured. The defaults are plausible and constant: they improve with
the accelerators of an instance, degrade with the users, and ignore models and techniques. A :class:`Setting` makes one
artifact slow and another fast; each read matches it against the model that an endpoint serves (:class:`Served`).
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
    """The model that serves requests at a moment.

    Attributes:
        name: the endpoint, or the inference component.
        instance_type: what it runs on; None where nothing runs.
        texts: what settings are matched against: names, model data, images, and variables as ``NAME=value``.
        copies: how many of it share the requests.
        image: of its container; None where it is not known.
    """

    name: str
    instance_type: str | None
    texts: tuple[str, ...]
    copies: int = 1
    image: str | None = None


@dataclass(frozen=True)
class Setting:
    """What is said of everything that has ``match`` in one of its texts; None leaves a number as it was.

    Attributes:
        match: a part of a text, for instance an S3 prefix, an image or ``NAME=value``; empty for everything.
        ttft_ms: milliseconds to the first token, with one user.
        itl_ms: milliseconds between tokens, with one user.
        contention: how much both grow with each further user, as a share.
        spread: standard deviation of both over the requests, as a share.
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
        """What is no number of its kind."""
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
    """The numbers of something served; see :class:`Setting` for what they mean."""

    ttft_ms: float
    itl_ms: float
    contention: float = _CONTENTION
    spread: float = _SPREAD
    error_rate: float = 0.0
    answers_differently: float = 0.0

    def under(self, concurrency: float) -> tuple[float, float]:
        """Milliseconds to the first token and between tokens while so many users wait."""
        crowded = 1 + self.contention * max(0.0, concurrency - 1)
        return self.ttft_ms * crowded, self.itl_ms * crowded


class Performances:
    """What was said, the latest word last."""

    def __init__(self) -> None:
        self._settings: list[Setting] = []

    def set(self, settings: dict[str, Any]) -> None:
        """Keep a setting.

        Raises:
            ApiError: for what is none.
        """
        known = [member.name for member in fields(Setting)]
        if unknown := sorted(set(settings) - set(known)):
            raise validation_error(f"not a performance: {', '.join(unknown)}; there are {', '.join(known)}")
        setting = Setting(**settings)
        if problems := setting.problems():
            raise validation_error(f"not a performance: {'; '.join(problems)}")
        self._settings.append(setting)

    def clear(self) -> None:
        """Go back to the defaults."""
        self._settings.clear()

    def to_json(self) -> list[dict[str, Any]]:
        """What was said, in its order."""
        return [asdict(setting) for setting in self._settings]

    def of(self, served: Served, input_tokens: float = 0.0) -> Performance:
        """The numbers of what is served, for prompts of a length: each is the last one that was set for it."""
        numbers: dict[str, Any] = default(served.instance_type, input_tokens)
        for setting in self._settings:
            if any(setting.match in text for text in served.texts):
                values = asdict(setting)
                numbers |= {name: value for name, value in values.items() if name != "match" and value is not None}
        return Performance(**numbers)


def default(instance_type: str | None, input_tokens: float) -> dict[str, Any]:
    """The numbers of an instance of that type, of which nothing was said."""
    room = hardware().get(instance_type or "")
    speed = math.sqrt(room.accelerators) if room is not None and room.accelerators else 1.0
    prefill = _PREFILL_MS_A_TOKEN * input_tokens
    return {"ttft_ms": (_TTFT_MS + prefill) / speed, "itl_ms": _ITL_MS / speed}


def tokens_of(text: str) -> int:
    """Estimate the number of tokens of a text: four characters each."""
    return max(1, math.ceil(len(text) / 4))


def share_of(text: str, *, about: str = "") -> float:
    """A number from 0 up to 1 that a text always has, evenly spread over texts."""
    digest = hashlib.sha256(f"{about}\n{text}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def strings_of(value: Any) -> Iterable[str]:
    """Every text in a record of a model, with variables as ``NAME=value``."""
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

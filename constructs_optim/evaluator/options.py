"""The options of an evaluation, which are stored with its results so that it can be resumed."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, NonNegativeInt, PositiveFloat, PositiveInt

from constructs_optim.recipe import tasks
from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.recipe.evaluation.result import load_label
from constructs_optim.recipe.tasks import TaskName
from constructs_optim.runtime.evaluation.differences import MARGIN

from .savings_plan import SavingsPlan

_TASKS: Mapping[str, TaskName] = {str(task): task for task in tasks.NAMES}
_FEWEST_REQUESTS, _REQUESTS_PER_USER = 32, 8
_FEWEST_ARRIVALS, _ARRIVAL_SECONDS = 100, 30


class EvaluationError(Exception):
    """An evaluation cannot continue. The message is for users, with a fix."""


def public_url(url: str) -> str:
    """Return a URL that results may show. Raises ValueError, which does not quote it, if it may contain a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        # Python's message quotes the URL.
        raise ValueError("not the URL of a server") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "the URL contains credentials, a query or a fragment, which the results would show; set a key with "
            "--api-key-variable"
        )
    return url


class FormatName(StrEnum):
    """The format of requests and responses: completions, embeddings, scores or classes."""

    AUTO = "auto"
    OPENAI = "openai"
    COMPLETIONS = "completions"
    LMI = "lmi"
    TGI = "tgi"
    EMBED = "embed"
    RERANK = "rerank"
    CLASSIFY = "classify"

    @property
    def task(self) -> TaskName | None:
        """What a model does for such requests; None for ``auto``."""
        if self is FormatName.AUTO:
            return None
        return _TASKS.get(self.value, tasks.GENERATE)


class _Options(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Generation(_Options):
    """How completions are generated; ``parameters`` are passed on unchanged."""

    # For a completion whose prompt sets no limit.
    max_tokens: int = 256
    # 0 always chooses the most likely token, so that completions can be compared.
    temperature: float = 0.0
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


class Arrivals(StrEnum):
    """How requests of an open loop are spaced: at random, evenly, or in bursts."""

    POISSON = "poisson"
    CONSTANT = "constant"
    GAMMA = "gamma"


class _Load(_Options):
    """The settings of all loads: how many requests count, or for how many seconds counted requests start."""

    requests: PositiveInt | None = None
    seconds: PositiveFloat | None = None
    # The warm-up, in requests of each user or in response times of an open loop. With 0, all requests count.
    warm_up: NonNegativeInt = 1
    timeout_seconds: PositiveFloat = 120.0

    @property
    def label(self) -> str:
        """The load's name in reports and results, such as ``8 users``."""
        raise NotImplementedError

    @property
    def file_name(self) -> str:
        """The load's part of file names."""
        return self.label.replace("/s", " per second").replace(" ", "-")

    @property
    def default_total(self) -> int:
        """The number of counted requests, if neither ``requests`` nor ``seconds`` is set."""
        raise NotImplementedError

    @property
    def is_steady(self) -> bool:
        """Whether the load is constant while requests count, after a warm-up."""
        return self.warm_up > 0

    @property
    def total(self) -> int | None:
        """The number of counted requests; None if ``seconds`` limits the load."""
        return None if self.seconds is not None else self.requests or self.default_total


class ClosedLoop(_Load):
    """Users who each send the next request when the previous response is complete."""

    kind: Literal["closed"] = "closed"
    concurrency: PositiveInt

    @property
    def label(self) -> str:
        """The number of users, as text."""
        return load_label(self.concurrency, None)

    @property
    def file_name(self) -> str:
        """The number of users."""
        return str(self.concurrency)

    @property
    def default_total(self) -> int:
        """Enough requests for a median, without a long wait."""
        return max(_FEWEST_REQUESTS, _REQUESTS_PER_USER * self.concurrency)


class OpenLoop(_Load):
    """Requests at a rate, in requests per second, whether or not earlier requests are complete.

    The rate changes linearly to ``end_rate`` while counted requests are sent. ``burstiness`` is the shape of gamma
    arrivals: 1 is Poisson, less is burstier. If prompts have several ``turns`` on average, the rate counts
    conversations, that is, their first requests.
    """

    kind: Literal["open"] = "open"
    request_rate: PositiveFloat
    end_rate: PositiveFloat | None = None
    arrivals: Arrivals = Arrivals.POISSON
    burstiness: PositiveFloat = 0.25
    turns: PositiveFloat = 1.0
    # The minimum number of counted requests, if neither ``requests`` nor ``seconds`` is set.
    fewest: PositiveInt = _FEWEST_ARRIVALS

    @property
    def label(self) -> str:
        """The rate, or both ends of a ramp."""
        return load_label(None, self.request_rate, self.end_rate, self.turns)

    @property
    def is_steady(self) -> bool:
        """Whether the rate is constant while requests count, after a warm-up."""
        return super().is_steady and self.end_rate is None

    @property
    def mean_rate(self) -> float:
        """The mean requests per second, including later turns of conversations."""
        return self.turns * (self.request_rate if self.end_rate is None else (self.request_rate + self.end_rate) / 2)

    @property
    def default_total(self) -> int:
        """Enough requests for a 90th percentile, and at high rates for half a minute."""
        return max(self.fewest, math.ceil(_ARRIVAL_SECONDS * self.mean_rate))

    @property
    def ramp_seconds(self) -> float:
        """The duration of a ramp; 0 without a ramp."""
        if self.end_rate is None:
            return 0.0
        return self.seconds or (self.total or 0) / self.mean_rate


class Replay(_Load):
    """Requests at the prompts' recorded times, ``speed`` times as fast: ``count`` requests at this mean rate."""

    kind: Literal["replay"] = "replay"
    request_rate: PositiveFloat
    speed: PositiveFloat = 1.0
    count: PositiveInt

    @property
    def is_steady(self) -> bool:
        """Always False, because recorded traffic varies."""
        return False

    @property
    def label(self) -> str:
        """The mean rate."""
        return load_label(None, self.request_rate)

    @property
    def default_total(self) -> int:
        """All recorded requests."""
        return self.count


Load = Annotated[ClosedLoop | OpenLoop | Replay, Field(discriminator="kind")]


class SideOptions(_Options):
    """A subject of an evaluation: a SageMaker endpoint, or the URL of an OpenAI-compatible server."""

    # The name of the side's folder: endpoint, or optimized and baseline.
    name: str
    endpoint_name: str | None = None
    url: Annotated[str, AfterValidator(public_url)] | None = None
    variant: str | None = None
    inference_component: str | None = None
    # The endpoint's API: InvokeEndpointWithResponseStream, or the OpenAI-compatible path.
    api: Literal["invocations", "openai"] = "invocations"
    model: str | None = None
    label: str | None = None
    # By default, the tokenizer in the files of the endpoint's model.
    tokenizer: str | None = None
    # The savings plan whose rate replaces the on-demand price of an instance.
    savings_plan: SavingsPlan | None = None
    # By default, the AWS Price List's price, for an endpoint.
    instance_price_per_hour: Annotated[PositiveFloat, Field(allow_inf_nan=False)] | None = None
    discount: float = Field(default=0.0, ge=0, lt=1)

    @property
    def title(self) -> str:
        """The side's name in reports."""
        return self.label or self.endpoint_name or self.url or self.name


class Options(_Options):
    """All options of an evaluation. With two sides, the baseline comes first. Each level has a load."""

    # The version of the folder's format.
    version: Literal[3] = 3
    sides: tuple[SideOptions, ...]
    started: dt.datetime
    loads: tuple[Load, ...]
    generation: Generation
    format: FormatName = FormatName.AUTO
    region: str | None = None
    profile: str | None = None
    api_key_variable: str = "OPENAI_API_KEY"
    max_error_rate: float | None = None
    margin: float = MARGIN
    random_prompts: bool = False
    # Whether each request starts with a unique number.
    unique_prompts: bool = False
    objectives: LatencyObjectives | None = None
    # The first load of the search for each side's limit; the search adds further loads.
    find_limit: OpenLoop | None = None
    # The command as typed, without keys.
    command: str | None = None

    @property
    def first_load(self) -> Load:
        """The load to measure first."""
        return self.find_limit or self.loads[0]

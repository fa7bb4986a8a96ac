"""A benchmark job's output: an archive with aiperf's summary and request records for each concurrency.

Sources: SageMaker Python SDK 3 (``output/output.tar.gz`` below the job's output location, a folder
``concurrency_<n>`` for each measurement of a sweep); aiperf's ``common/models/export_models.py``, and its guide
"Working with profile export files" for the record of each request. aiperf counts tokens of the text with its tokenizer,
and also writes the server's counts if the server sends any (its metrics reference, "Usage Field Metrics"). A record
lacks the count that nobody made: a response without text, such as a tool call, has no ``output_sequence_length``
(``metrics/types/output_sequence_length_metric.py``).
"""

from __future__ import annotations

import datetime as dt
import math
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, BinaryIO, NamedTuple, cast

from ..aws import client
from ..documents import json_value, list_in, nested, object_in
from ..errors import DeploymentError
from ..formula import calculate
from .definitions import DEFINITIONS
from .samples import FEWEST_BLOCKS, Observation, Sample
from .token_counts import CONTRADICTION

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_cloudwatch.type_defs import DimensionTypeDef, MetricDatumTypeDef

ARCHIVE = "output/output.tar.gz"
"""The archive's path below the job's output location."""
_SUMMARY = "profile_export_aiperf.json"
_RECORDS = "profile_export.jsonl"
_LARGEST = {_SUMMARY: 8_000_000, _RECORDS: 100_000_000}
_LEVEL = re.compile(r"(?:^|/)concurrency_(\d{1,6})(?:/|$)")
_NAMESPACE = "ConstructsOptim/Evaluation"
# PutMetricData accepts 1,000 metrics and 1 MB; smaller requests are cheaper to retry.
_AT_ONCE = 200
# aiperf's own count of each kind of tokens, and the server's.
_COUNTS = {
    "input": ("input_sequence_length", "usage_prompt_tokens"),
    "output": ("output_sequence_length", "usage_completion_tokens"),
}
_OF_TOKENS = frozenset(
    f"{kind}_tokens{rate}" for kind in _COUNTS for rate in ("", "_per_second", "_per_second_per_request")
)
_PUBLISHED = frozenset(definition["name"] for definition in DEFINITIONS)
_MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3}


@dataclass(frozen=True)
class Level:
    """The measurements at one concurrency: values by the names in ``definitions``.

    ``ended`` is in seconds since 1970, or None if aiperf did not write it. ``observations`` are the requests that
    aiperf recorded, for a ``Sample``. ``left_out`` is the number of requests that were sent before every user had
    completed its first one, which do not count. ``server_counted`` has the kinds of tokens of which the server's counts
    are used, with by how much more the server counted than aiperf's tokenizer, as a share of the tokens of the requests
    that both counted; None without any. ``uncounted`` is the number of completed requests whose output tokens nobody
    counted.
    """

    concurrency: int
    seconds: float
    metrics: Mapping[str, float]
    errors: Mapping[str, int]
    ended: float | None = None
    observations: tuple[Observation, ...] = ()
    left_out: int = 0
    server_counted: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    uncounted: int = 0

    @property
    def sample(self) -> Sample | None:
        """The sample of the requests, for standard errors; None if aiperf recorded none."""
        return Sample(self.observations, self.seconds) if self.observations else None

    def priced(self, instance_price_per_hour: float, discount: float) -> Level:
        """Return a copy with the metrics that depend on a price."""
        known = {**self.metrics, "instance_price_per_hour": instance_price_per_hour}
        return replace(self, metrics=_with_formulas(known, discount))

    def accepting(self, length: float, drafts: float | None) -> Level:
        """Return a copy with the acceptance length and the rate of drafts."""
        counted = {"drafts": drafts} if drafts is not None else {}
        return replace(self, metrics={**self.metrics, "acceptance_length": length, **counted})


def read_levels(archive: BinaryIO | StreamingBody, concurrencies: Sequence[int]) -> list[Level]:
    """Return the measurements in a gzip-compressed archive, where a single concurrency has no folder of its own."""
    levels: dict[int, Level] = {}
    recorded: dict[int, _Records] = {}
    try:
        for path, content in _files(archive):
            named = _LEVEL.search(path)
            if named is None and len(concurrencies) > 1:
                continue
            concurrency = int(named[1]) if named else concurrencies[0]
            if path.rpartition("/")[2] == _SUMMARY:
                levels[concurrency] = _level(object_in(json_value(content.read())), concurrency)
            else:
                recorded[concurrency] = _records(content)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise DeploymentError(f"the benchmark's output cannot be read: {type(error).__name__}: {error}") from error
    missing = [str(users) for users in concurrencies if users not in levels]
    if missing:
        raise DeploymentError(
            f"the benchmark's output has no {_SUMMARY} for {' and '.join(missing)} users; found: "
            f"{', '.join(map(str, sorted(levels))) or 'none'}"
        )
    return [
        of_requests(levels[users], *recorded[users]) if users in recorded else levels[users] for users in concurrencies
    ]


class _Records(NamedTuple):
    """The recorded requests in the order in which they were sent, and ``Level.server_counted``."""

    observations: list[Observation]
    server_counted: Mapping[str, float | None]


def of_requests(
    level: Level, ordered: Sequence[Observation], server_counted: Mapping[str, float | None] = MappingProxyType({})
) -> Level:
    """Return the level with latencies, rates, and numbers of tokens of the recorded requests.

    ``ordered`` are the requests in the order in which they were sent. If the tokens of some are unknown, a rate of
    tokens would be too low, and is left out.
    """
    if all(each.client_latency is None for each in ordered):
        return replace(level, observations=tuple(ordered))
    sample = _under_full_load(ordered, level.concurrency)
    found = {name: value for name, value in sample.drawn().items() if name in _PUBLISHED}
    for name in ("input_tokens", "output_tokens"):
        if counts := [count for each in sample.observations if (count := each.amount(name)) is not None]:
            found[name] = math.fsum(counts) / len(counts)
    overall, rate = level.metrics.get("requests_per_second"), found.get("requests_per_second")
    if "goodput" in level.metrics and overall and rate:
        # aiperf records no objectives, and its rates are those of its whole time.
        found["goodput"] = level.metrics["goodput"] * rate / overall
    # The last parts of requests that do not count themselves add to the rates.
    kept = [each for each in (*sample.around, *sample.observations) if each.start >= 0 or each.within]
    others = {name: value for name, value in level.metrics.items() if name not in _OF_TOKENS}
    return replace(
        level,
        seconds=sample.seconds,
        metrics=_with_formulas({**others, **found}),
        observations=tuple(kept),
        left_out=len(ordered) - len(sample),
        server_counted=dict(server_counted),
        uncounted=sum(
            each.client_latency is not None and each.output_tokens is None and each.inputs is None for each in kept
        ),
    )


def _under_full_load(ordered: Sequence[Observation], users: int) -> Sample:
    """Return the requests of the time in which all users sent requests.

    aiperf starts all users at the same moment, so their first requests queue longer than any later ones. It also counts
    the time until the last response, in which fewer and fewer users are active. So only requests after each user's
    first count, unless too few would remain, and only the time until the last request was sent, unless users sent no
    second one.
    """
    ends = [each.start + (each.client_latency or 0.0) / 1000 for each in ordered]
    begin, end = max(ends[:users]), ordered[-1].start
    left = sum(each.start >= begin for each in ordered)
    if left < max(2 * FEWEST_BLOCKS, len(ordered) / 2) or end <= begin:
        begin = ordered[0].start
    if len(ordered) <= users or end <= begin:
        end = max(ends)
    return Sample([each.inside(begin, end) for each in ordered], end - begin)


def _files(archive: BinaryIO | StreamingBody) -> Iterator[tuple[str, IO[bytes]]]:
    # tarfile only reads the stream, although typeshed requires a full IO.
    with tarfile.open(fileobj=cast("IO[bytes]", archive), mode="r|gz") as members:
        for member in members:
            file = member.name.rpartition("/")[2]
            largest = _LARGEST.get(file)
            if not member.isfile() or largest is None:
                continue
            if member.size > largest:
                if file == _RECORDS:
                    # The summary has the metrics. Comparisons then have no intervals.
                    continue
                raise ValueError(f"{member.name} has {member.size} bytes")
            if content := members.extractfile(member):
                yield member.name, content


def _records(lines: IO[bytes]) -> _Records:
    """Return the recorded requests except those of the warm-up; skip lines that are not JSON."""
    observations: list[Observation] = []
    counts: dict[str, list[_Counts]] = {kind: [] for kind in _COUNTS}
    first: int | None = None
    for line in lines:
        try:
            record = object_in(json_value(line))
        except ValueError:
            continue
        metadata, values = object_in(record.get("metadata")), dict(_recorded(object_in(record.get("metrics"))))
        start = metadata.get("request_start_ns")
        if metadata.get("benchmark_phase") == "warmup" or not isinstance(start, int):
            continue
        first = start if first is None else first
        known = {} if record.get("error") is not None else values
        of_request = {kind: _Counts(*map(known.get, names)) for kind, names in _COUNTS.items()}
        for kind, each in of_request.items():
            counts[kind].append(each)
        # Every workload has a seed, and with a seed, equal IDs mean equal prompts (aiperf 0.13,
        # common/session_id_generator.py).
        conversation, turn = metadata.get("conversation_id"), metadata.get("turn_index") or 0
        observations.append(
            Observation(
                (start - first) / 1e9,
                known.get("time_to_first_token"),
                _inter_token_latency(known, of_request["output"]),
                known.get("request_latency"),
                of_request["input"].used,
                of_request["output"].used,
                f"{conversation}, turn {turn}" if isinstance(conversation, str) else None,
            )
        )
    server_counted: dict[str, float | None] = {}
    for kind, each in counts.items():
        if by_server := [of_request for of_request in each if of_request.is_by_server]:
            server_counted[kind] = _difference(by_server)
    return _Records(sorted(observations, key=lambda each: each.start), server_counted)


class _Counts(NamedTuple):
    """A request's tokens of one kind, as far as they were counted."""

    by_tokenizer: float | None
    by_server: float | None

    @property
    def is_by_server(self) -> bool:
        """Whether the server counted, and the text does not contradict it."""
        return self.by_server is not None and 0 < self.by_server >= (self.by_tokenizer or 0.0) / CONTRADICTION

    @property
    def used(self) -> float | None:
        """The server's count, or else aiperf's."""
        return self.by_server if self.is_by_server else self.by_tokenizer


def _difference(counts: Iterable[_Counts]) -> float | None:
    """Return by how much more the server counted, over all requests that both counted; None without any."""
    both = [(each.by_server, each.by_tokenizer) for each in counts if each.by_server and each.by_tokenizer]
    return sum(server for server, _ in both) / sum(tokenizer for _, tokenizer in both) - 1 if both else None


def _inter_token_latency(values: Mapping[str, float], tokens: _Counts) -> float | None:
    """Return the time after the first token, divided by the other tokens."""
    latency, server, tokenizer = values.get("inter_token_latency"), tokens.by_server or 0.0, tokens.by_tokenizer or 0.0
    if not tokens.is_by_server or server <= 1:
        return latency
    if latency is not None:
        return latency * (tokenizer - 1) / (server - 1) if tokenizer > 1 else latency
    first, whole = values.get("time_to_first_token"), values.get("request_latency")
    return (whole - first) / (server - 1) if first is not None and whole is not None and whole > first else None


def _recorded(metrics: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Yield every number of a record by metric name, with times in milliseconds."""
    for name, metric in metrics.items():
        value, unit = nested(metric, "value"), nested(metric, "unit")
        if (number := _number(value, unit)) is not None:
            yield name, number


def _level(export: Mapping[str, object], concurrency: int) -> Level:
    measured = dict(_values(export))
    # aiperf omits counts of zero.
    measured.setdefault("error_request_count.avg", 0.0)
    measured.setdefault("request_count.avg", 0.0)
    errors = _errors(list_in(export.get("error_summary")))
    tokenizer = float(errors.get("tokenizer", 0))
    metrics = {
        "concurrency": float(concurrency),
        "tokenizer_failed": tokenizer,
        # The metrics reference counts responses that the tokenizer could not parse as empty.
        "empty_inference_response": tokenizer + errors.get("empty", 0),
    }
    for definition in DEFINITIONS:
        value = calculate(definition["aiperf"], measured) if definition["aiperf"] else None
        if value is not None:
            metrics[definition["name"]] = value
    seconds = measured.get("benchmark_duration.avg", 0.0) / 1e3
    ended = _time(export.get("end_time"))
    return Level(concurrency, seconds, _with_formulas(metrics), errors, ended)


def _time(written: object) -> float | None:
    """Return a time that aiperf wrote, in seconds since 1970. It has no zone; aiperf's container uses UTC."""
    try:
        return dt.datetime.fromisoformat(str(written)).replace(tzinfo=dt.UTC).timestamp()
    except ValueError:
        return None


def _values(export: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Yield every number of the summary by metric name and statistic, with times in milliseconds."""
    for name, metric in export.items():
        unit = nested(metric, "unit")
        if not isinstance(unit, str):
            continue
        for statistic, value in object_in(metric).items():
            if (number := _number(value, unit)) is not None:
                yield f"{name}.{statistic}", number


def _number(value: object, unit: object) -> float | None:
    """Return a number with times in milliseconds; None for anything else, and for a time that overflows."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    number = value * _MILLISECONDS.get(str(unit).lower(), 1.0)
    return number if math.isfinite(number) else None


def _errors(summary: list[object]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in summary:
        details, reported = object_in(nested(entry, "error_details")), nested(entry, "count")
        count = int(reported) if isinstance(reported, str | int | float) else 0
        kind = str(details.get("code") or details.get("type") or "unknown")
        counts[kind] = counts.get(kind, 0) + count
        message = f"{details.get('type') or ''} {details.get('message') or ''}".lower()
        if "tokeniz" in message:
            counts["tokenizer"] = counts.get("tokenizer", 0) + count
        elif "empty" in message or "no response" in message:
            counts["empty"] = counts.get("empty", 0) + count
    return counts


def _with_formulas(metrics: Mapping[str, float], discount: float = 0.0) -> dict[str, float]:
    values = dict(metrics)
    for definition in DEFINITIONS:
        if definition["formula"]:
            value = calculate(definition["formula"], {**values, "discount": discount})
            if value is not None:
                values[definition["name"]] = value
    return values


def publish(dimensions: Mapping[str, str], artifact_key: str, levels: Sequence[Level], *, at: dt.datetime) -> None:
    """Publish the metrics of all concurrencies with the timestamp ``at``."""
    data: list[MetricDatumTypeDef] = []
    for level in levels:
        named = {**dimensions, "Concurrency": str(level.concurrency), "ArtifactKey": artifact_key}
        listed: list[DimensionTypeDef] = [{"Name": name, "Value": value} for name, value in named.items()]
        for definition in DEFINITIONS:
            if (value := level.metrics.get(definition["name"])) is not None:
                data.append({"MetricName": definition["metric_name"], "Unit": definition["unit"], "Value": value})
                data[-1].update({"Dimensions": listed, "Timestamp": at})
    cloudwatch = client("cloudwatch")
    for start in range(0, len(data), _AT_ONCE):
        cloudwatch.put_metric_data(Namespace=_NAMESPACE, MetricData=data[start : start + _AT_ONCE])

"""A benchmark job's output: an archive with aiperf's summary and request records for each concurrency.

Sources: SageMaker Python SDK 3 (``output/output.tar.gz`` below the job's output location, a folder
``concurrency_<n>`` for each measurement of a sweep); aiperf's ``common/models/export_models.py``, and its guide
"Working with profile export files" for the record of each request. aiperf counts tokens of the text with its tokenizer,
and also writes the server's counts if the server sends any (its metrics reference, "Usage Field Metrics").
"""

from __future__ import annotations

import datetime as dt
import math
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from ..aws import client
from ..documents import json_value, list_in, nested, object_in
from ..errors import DeploymentError
from ..formula import calculate
from .definitions import DEFINITIONS
from .samples import FEWEST_BLOCKS, Observation, Sample

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
# A server's count is wrong if the text has more than this many times as many tokens.
_CONTRADICTION = 1.5
_MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3}


@dataclass(frozen=True)
class Level:
    """The measurements at one concurrency: values by the names in ``definitions``.

    ``ended`` is in seconds since 1970, or None if aiperf did not write it. ``observations`` are the requests that
    aiperf recorded. ``left_out`` counts further requests, sent before every user had completed its first one. The
    metrics use the server's counts of the kinds of tokens in ``server_counted``, with by how much more the server
    counted than aiperf's tokenizer, as a share.
    """

    concurrency: int
    seconds: float
    metrics: Mapping[str, float]
    errors: Mapping[str, int]
    ended: float | None = None
    observations: tuple[Observation, ...] = ()
    left_out: int = 0
    server_counted: Mapping[str, float] = field(default_factory=dict[str, float])

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
    observed: dict[int, tuple[Observation, ...]] = {}
    try:
        for path, content in _files(archive):
            named = _LEVEL.search(path)
            if named is None and len(concurrencies) > 1:
                continue
            concurrency = int(named[1]) if named else concurrencies[0]
            if path.rpartition("/")[2] == _SUMMARY:
                levels[concurrency] = _level(object_in(json_value(content.read())), concurrency)
            else:
                observed[concurrency] = tuple(_observations(content))
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise DeploymentError(f"the benchmark's output cannot be read: {type(error).__name__}: {error}") from error
    missing = [str(users) for users in concurrencies if users not in levels]
    if missing:
        raise DeploymentError(
            f"the benchmark's output has no {_SUMMARY} for {' and '.join(missing)} users; found: "
            f"{', '.join(map(str, sorted(levels))) or 'none'}"
        )
    return [_in_steady_state(levels[users], observed.get(users, ())) for users in concurrencies]


def _in_steady_state(level: Level, observations: Sequence[Observation]) -> Level:
    """Return the level with latencies and rates of the time in which all users sent requests.

    aiperf starts all users at the same moment, so their first requests queue longer than any later ones. It also counts
    the time until the last response, in which fewer and fewer users are active. So only requests after each user's
    first count, and only the time until the last request was sent. If too few requests remain, aiperf's values stay.
    """
    ordered = sorted(observations, key=lambda each: each.start)
    ends = [each.start + (each.client_latency or 0.0) / 1000 for each in ordered[: level.concurrency]]
    begin, end = max(ends, default=0.0), ordered[-1].start if ordered else 0.0
    counted = [each for each in ordered if each.start >= begin]
    if len(counted) < max(2 * FEWEST_BLOCKS, len(ordered) / 2) or end <= begin:
        return replace(level, observations=tuple(ordered))
    sample = Sample(
        [each.inside(begin, end) for each in counted],
        end - begin,
        [each.inside(begin, end) for each in ordered if each.start < begin],
    )
    drawn = {name: value for name, value in sample.drawn().items() if name in level.metrics}
    return replace(
        level,
        seconds=sample.seconds,
        metrics=_with_formulas({**level.metrics, **drawn}),
        observations=tuple(sample.observations),
        left_out=len(ordered) - len(counted),
    )


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


def _observations(lines: IO[bytes]) -> Iterator[Observation]:
    """Yield the recorded requests except those of the warm-up; skip lines that are not JSON."""
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
        # Every workload has a seed, and with a seed, equal IDs mean equal prompts (aiperf 0.13,
        # common/session_id_generator.py).
        conversation, turn = metadata.get("conversation_id"), metadata.get("turn_index") or 0
        _use_server_counts(known)
        yield Observation(
            (start - first) / 1e9,
            known.get("time_to_first_token"),
            known.get("inter_token_latency"),
            known.get("request_latency"),
            known.get("input_sequence_length"),
            known.get("output_sequence_length"),
            f"{conversation}, turn {turn}" if isinstance(conversation, str) else None,
        )


def _use_server_counts(values: dict[str, float], statistic: str = "") -> dict[str, float]:
    """Replace aiperf's counts of tokens, and what it calculated from them, by the server's counts if they are known.

    Returns by how much the server counted more, by kind of tokens. ``statistic`` follows the names of mean values.
    """
    found: dict[str, float] = {}
    for kind, names in _COUNTS.items():
        counted, server = (values.get(f"{name}{statistic}", 0.0) for name in names)
        if not counted or server * _CONTRADICTION < counted:
            continue
        found[kind], values[f"{names[0]}{statistic}"] = server / counted - 1, server
        for name in values if kind == "output" else ():
            if name.startswith("output_token_throughput"):
                values[name] *= server / counted
            elif name.startswith("inter_token_latency") and counted > 1 and server > 1:
                # The time after the first token, divided by the other tokens.
                values[name] *= (counted - 1) / (server - 1)
    return found


def _recorded(metrics: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Yield every number of a record by metric name, with times in milliseconds."""
    for name, metric in metrics.items():
        value, unit = nested(metric, "value"), nested(metric, "unit")
        if (number := _number(value, unit)) is not None:
            yield name, number


def _level(export: Mapping[str, object], concurrency: int) -> Level:
    measured = dict(_values(export))
    server_counted = _use_server_counts(measured, ".avg")
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
    return Level(concurrency, seconds, _with_formulas(metrics), errors, ended, server_counted=server_counted)


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

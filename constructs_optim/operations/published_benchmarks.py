"""JumpStart's published data of a model: its version, its configurations and their benchmarks.

Source: JumpStart's documents (``DescribeHubContent``), in which ``inference_configs`` has ``benchmark_metrics`` by
instance type: ``{"name", "unit", "value", "concurrency"}`` each, values and concurrency as text. The SageMaker Python
SDK's table of them says what they mean: latency is the median time to first token, throughput the median tokens a
second of one user.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from constructs_optim.runtime.jobs.hub_document import hub_content

PUBLIC_HUB = "SageMakerPublicHub"
_MILLISECONDS = {"s": 1000.0, "sec": 1000.0, "seconds": 1000.0, "ms": 1.0, "milliseconds": 1.0}


@dataclass(frozen=True)
class PublishedBenchmark:
    """One number of users on one instance type; None for what was not published in a unit that is known.

    Attributes:
        configuration: of the model's document, for instance ``lmi-optimized``.
        instance_type: for instance ``ml.g5.48xlarge``.
        concurrency: users at the same time.
        time_to_first_token_ms: median, in milliseconds.
        tokens_per_second_of_a_user: median.
    """

    configuration: str
    instance_type: str
    concurrency: int
    time_to_first_token_ms: float | None
    tokens_per_second_of_a_user: float | None


@dataclass(frozen=True)
class PublishedModel:
    """A model of the public hub.

    Attributes:
        version: its version.
        configurations: by name, the instance types they are offered on; none where the document does not say.
        benchmarks: of all configurations.
    """

    version: str
    configurations: Mapping[str, frozenset[str]]
    benchmarks: tuple[PublishedBenchmark, ...]


def published_model(sagemaker: Any, model_id: str, version: str | None = None) -> PublishedModel:
    """Look a model up in the public hub.

    Args:
        sagemaker: a SageMaker client of the region.
        model_id: for instance ``meta-textgeneration-llama-3-70b-instruct``.
        version: for instance ``2.25.0``. Default: the newest.

    Raises:
        DeploymentError: where the hub has no such model or version.
        botocore.exceptions.ClientError: where the account may not ask.
    """
    text, current = hub_content(sagemaker, PUBLIC_HUB, model_id, version)
    return PublishedModel(current, *published(text))


def published(text: str) -> tuple[dict[str, frozenset[str]], tuple[PublishedBenchmark, ...]]:
    """Configurations and benchmarks of a document, whose keys differ in case from one to the next."""
    document = json.loads(text)
    configurations = _member(document, "inferenceconfigs") or {}
    components = _member(document, "inferenceconfigcomponents") or {}
    types = {name: _offered(config, components) for name, config in configurations.items()}
    benchmarks = [
        benchmark
        for name, config in configurations.items()
        for instance_type, rows in (_member(config, "benchmarkmetrics") or {}).items()
        for benchmark in _levels(name, instance_type, rows)
    ]
    return types, tuple(benchmarks)


def _offered(config: Mapping[str, Any], components: Mapping[str, Any]) -> frozenset[str]:
    """The instance types that a configuration's last component with a list of them names."""
    listed: list[str] = []
    for name in _member(config, "componentnames") or []:
        listed = _member(components.get(name) or {}, "supportedinferenceinstancetypes") or listed
    return frozenset(listed)


def _levels(configuration: str, instance_type: str, rows: list[Mapping[str, Any]]) -> Iterator[PublishedBenchmark]:
    by_users: dict[int, dict[str, float]] = {}
    for row in rows:
        users, value = _number(_member(row, "concurrency")), _number(_member(row, "value"))
        name, unit = (str(_member(row, member) or "").lower() for member in ("name", "unit"))
        if users is None or users < 1 or value is None or value <= 0:
            continue
        level = by_users.setdefault(int(users), {})
        if name == "latency" and unit in _MILLISECONDS:
            level["latency"] = value * _MILLISECONDS[unit]
        elif name == "throughput" and unit.startswith("tokens/s"):
            level["throughput"] = value
    for users, level in sorted(by_users.items()):
        if level:
            yield PublishedBenchmark(configuration, instance_type, users, level.get("latency"), level.get("throughput"))


def _member(value: Mapping[str, Any], name: str) -> Any:
    return next((item for key, item in value.items() if key.replace("_", "").lower() == name), None)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None

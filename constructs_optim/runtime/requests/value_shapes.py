"""The forms of the values that reach a handler, as SageMaker's API takes them.

Patterns and limits are those of CreateOptimizationJob and CreateModel, narrowed to what a deployment can mean.
"""

from __future__ import annotations

import os
import re
from typing import TypeGuard
from urllib.parse import urlsplit

S3_URI = re.compile(r"(?=.{1,1024}\Z)s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([^\x00-\x1f\x7f]*))?")
"""Bucket and prefix are its groups; the prefix is None where there is none."""
IMAGE = re.compile(r"(?=.{1,255}\Z)[\w.-]+(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?", re.ASCII)
MODEL_ENVIRONMENT, JOB_ENVIRONMENT = (100, 1024), (25, 256)
"""How many variables a model and a job may have, and how long their names and values may be."""
INSTANCE_TYPE = re.compile(r"ml\.[a-z0-9-]{1,32}\.[a-z0-9-]{1,32}")
RESOURCE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
"""What endpoints, their configurations, models and workloads are called."""
COUNT = re.compile(r"\d{1,4}", re.ASCII)
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NETWORK_ID = re.compile(r"[-0-9a-zA-Z]{1,32}")
_TAG_TEXT = re.compile(r"[\w .:/=+@-]*")
# Of AWS's partitions (botocore's endpoints.json); nobody else gets what a signal carries.
_DNS_SUFFIXES = (
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    "c2s.ic.gov",
    "cloud.adc-e.uk",
    "csp.hci.ic.gov",
    "sc2s.sgov.gov",
)
_WAIT_HANDLE_HOST = re.compile(
    rf"cloudformation-waitcondition-[a-z0-9-]+\.s3([.-][a-z0-9-]+)?\.({'|'.join(map(re.escape, _DNS_SUFFIXES))})"
)
_CONFIGS = frozenset(
    {
        "ModelCompilationConfig",
        "ModelQuantizationConfig",
        "ModelShardingConfig",
        "ModelSpeculativeDecodingConfig",
    }
)
_MOST_CONFIGS = 10
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Whether ``value`` is an object of JSON, in which every name is text."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether ``value`` is an array of JSON."""
    return isinstance(value, list)


def text(value: object) -> str:
    """``value`` where it is text.

    Raises:
        TypeError: when it is anything else.
    """
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]} is no text")
    return value


def whole_number(value: object) -> int:
    """``value`` where it is a whole number.

    Raises:
        TypeError: when it is anything else.
    """
    if not isinstance(value, int):
        raise TypeError(f"{str(value)[:40]} is no whole number")
    return value


def object_in(value: object) -> dict[str, object]:
    """``value`` where it is an object of JSON, and an empty one where it is anything else."""
    return value if is_object(value) else {}


def list_in(value: object) -> list[object]:
    """``value`` where it is an array of JSON, and an empty one where it is anything else."""
    return value if is_list(value) else []


def nested(value: object, *names: str) -> object:
    """What objects of JSON have under ``names``, one inside the other; None where there is none."""
    for name in names:
        value = object_in(value).get(name)
    return value


def matches(value: object, pattern: re.Pattern[str]) -> TypeGuard[str]:
    """Whether ``value`` is text of that form, all of it."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def are_network_ids(value: object, most: int) -> TypeGuard[list[str]]:
    """Whether ``value`` lists subnets or security groups, one at least and ``most`` at most."""
    return is_list(value) and 0 < len(value) <= most and all(matches(item, _NETWORK_ID) for item in value)


def is_tag(value: object) -> TypeGuard[dict[str, str]]:
    """Whether ``value`` is a tag that a user may set."""
    if not is_object(value) or set(value) != {"Key", "Value"}:
        return False
    key, text = value["Key"], value["Value"]
    return (
        matches(key, _TAG_TEXT)
        and matches(text, _TAG_TEXT)
        and 1 <= len(key) <= 128
        and len(text) <= 256
        # AWS keeps these to itself.
        and not key.lower().startswith("aws:")
    )


def is_environment(value: object, limits: tuple[int, int]) -> TypeGuard[dict[str, str]]:
    """Whether ``value`` holds environment variables; ``limits``: how many, and how long their names and values."""
    most, longest = limits
    return (
        is_object(value)
        and len(value) <= most
        and all(matches(name, _VARIABLE) and len(name) <= longest for name in value)
        and all(isinstance(text, str) and len(text) <= longest for text in value.values())
    )


def are_optimization_configs(value: object) -> bool:
    """Whether ``value`` is what a job may be asked to do."""
    return is_list(value) and 0 < len(value) <= _MOST_CONFIGS and all(_is_optimization(entry) for entry in value)


def _is_optimization(entry: object) -> bool:
    return (
        is_object(entry)
        and len(entry) == 1
        and set(entry) <= _CONFIGS
        and all(_is_config(config) for config in entry.values())
    )


def _is_config(value: object) -> bool:
    if not is_object(value):
        return False
    data = value.get("TrainingDataSource", {"S3Uri": "s3://any"})
    return (
        matches(value.get("Image", "any"), IMAGE)
        and is_environment(value.get("OverrideEnvironment", {}), JOB_ENVIRONMENT)
        and is_object(data)
        and matches(data.get("S3Uri"), S3_URI)
    )


def is_wait_handle(value: object) -> TypeGuard[str]:
    """Whether a URL is one of CloudFormation's own, which a signal may be sent to.

    A function of the local cloud signals to loopback. In Lambda, loopback is the runtime's own interface.
    """
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        local = parts.hostname in _LOOPBACK and urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).hostname in _LOOPBACK
        own = parts.port is None and matches(parts.hostname, _WAIT_HANDLE_HOST)
    except ValueError:
        return False
    if parts.username is not None or parts.password is not None:
        return False
    return (parts.scheme == "https" and own) or (parts.scheme == "http" and local)

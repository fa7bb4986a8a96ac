"""Simulated requests of a benchmark job: an archive as aiperf writes it, of users who all start at once."""

from __future__ import annotations

import heapq
import io
import json
import math
import tarfile
from collections.abc import Callable, Mapping
from random import Random

from constructs_optim.runtime.evaluation.benchmark_output import Level, read_levels

FIRST_MS, BETWEEN_MS, TOKENS = 200.0, 20.0, 50
PRICE_PER_HOUR = 7.09


def lognormal(random: Random) -> float:
    """How many times as long as usual a request takes: a logarithm with a standard deviation of 0.5."""
    return math.exp(random.gauss(0, 0.5))


def heavy_tailed(random: Random) -> float:
    """How many times as long as usual a request takes: one in 316 takes ten times as long or longer (Pareto)."""
    return random.paretovariate(2.5)


def archive(files: Mapping[str, object]) -> io.BytesIO:
    """The archive of a benchmark job, of bytes and of JSON documents."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as members:
        for name, document in files.items():
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            members.addfile(info, io.BytesIO(data))
    content.seek(0)
    return content


def benchmarked(random: Random, users: int, requests: int, noise: Callable[[Random], float] = lognormal) -> Level:
    """The level of users who each send the next request when the last response is complete, until none are left."""
    lines, free, ended = list[str](), [0.0] * users, 0.0
    for number in range(requests):
        start, factor = heapq.heappop(free), noise(random)
        first, between = FIRST_MS * factor, BETWEEN_MS * factor ** (1 / 3)
        took = first + between * (TOKENS - 1)
        heapq.heappush(free, start + took / 1000)
        ended = max(ended, start + took / 1000)
        metrics = {
            "time_to_first_token": {"value": first, "unit": "ms"},
            "inter_token_latency": {"value": between, "unit": "ms"},
            "request_latency": {"value": took, "unit": "ms"},
            "input_sequence_length": {"value": 600, "unit": "tokens"},
            "output_sequence_length": {"value": TOKENS, "unit": "tokens"},
        }
        metadata = {"request_start_ns": math.ceil(start * 1e9), "conversation_id": f"{number}"}
        lines.append(json.dumps({"metadata": metadata, "metrics": metrics}))
    summary = {
        "request_count": {"avg": requests, "unit": "requests"},
        "benchmark_duration": {"avg": ended, "unit": "sec"},
        "request_throughput": {"avg": requests / ended, "unit": "requests/sec"},
        "output_token_throughput": {"avg": requests * TOKENS / ended, "unit": "tokens/sec"},
    }
    files = {"profile_export_aiperf.json": summary, "profile_export.jsonl": "\n".join(lines).encode()}
    (level,) = read_levels(archive(files), [users])
    return level.priced(PRICE_PER_HOUR, 0.0)

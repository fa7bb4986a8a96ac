"""Time operations on a large artifact store: listing it, and removing unreferenced artifacts.

S3 is simulated in memory, and each call takes 20 ms. Listing, reading and removing run the real code. With the real S3,
boto3 takes about a further millisecond of processor time for each call.
"""

from __future__ import annotations

import argparse
import datetime as dt
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from targets import Target, target_table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from constructs_optim.operations.artifacts import ArtifactInventory
from constructs_optim.operations.pruning import Pruner
from constructs_optim.operations.stacks import Stacks
from tests.operations.memory_store import ACCOUNT, BUCKET, FILES, MemoryS3, MemoryStacks, fill

_CALL_SECONDS = 0.02
_MOST_LIST_SECONDS = 30.0
_MOST_PRUNE_SECONDS = 120.0
_MOST_MEMORY_MB = 200.0
_STACKS = 1000


def main() -> int:
    """Measure, print, and return the exit status: 0 if every target is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--artifacts", type=int, default=10_000)
    parser.add_argument("--unused", type=int, default=2_000, help="number of artifacts to remove")
    options = parser.parse_args()
    s3 = MemoryS3(_CALL_SECONDS)
    fill(s3, options.artifacts, options.unused, _STACKS)
    whole = f"{options.artifacts:,} artifacts of {FILES} files"

    before = _peak_mb()
    started = time.monotonic()
    count = sum(1 for _ in _inventory(s3).all())
    listed, list_calls = time.monotonic() - started, _calls(s3)
    assert count == options.artifacts

    s3.calls.clear()
    started = time.monotonic()
    pruner = Pruner(
        s3,
        _inventory(s3),
        Stacks(ACCOUNT, lambda region: cast(Any, MemoryStacks(_CALL_SECONDS))),
        older_than=dt.timedelta(0),
        now=dt.datetime.now(dt.UTC),
    )
    surveyed = pruner.survey()
    looked = time.monotonic() - started
    removed = sum(removal.removed for removal in pruner.remove(surveyed).removals)
    pruned, prune_calls = time.monotonic() - started, _calls(s3)
    assert removed == options.unused
    memory = _peak_mb() - before

    targets = [
        _timed(f"list {whole} ({list_calls:,} calls)", listed, _MOST_LIST_SECONDS),
        _timed(
            f"prune {removed:,} of them ({prune_calls:,} calls, {looked:.0f} s of it the survey)",
            pruned,
            _MOST_PRUNE_SECONDS,
        ),
        Target(
            "memory beside the store's own",
            f"{memory:.0f} MB",
            f"< {_MOST_MEMORY_MB:.0f} MB",
            memory < _MOST_MEMORY_MB,
        ),
    ]
    Console().print(target_table(targets))
    return 0 if all(target.holds for target in targets) else 1


def _inventory(s3: Any) -> ArtifactInventory:
    # No job is read, because every artifact has its manifest.
    return ArtifactInventory(s3, None, BUCKET, account=ACCOUNT)


def _timed(name: str, seconds: float, most: float) -> Target:
    return Target(name, f"{seconds:.1f} s", f"< {most:.0f} s", seconds < most)


def _calls(s3: MemoryS3) -> int:
    return Counter(s3.calls).total()


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())

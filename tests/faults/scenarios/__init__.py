"""What happens to deployments beside calls that fail: requests, jobs, stacks and the store.

Each is named as in docs/reliability.md.
"""

from . import jobs, requests, stacks, store
from .registry import SCENARIOS

__all__ = ["SCENARIOS", "jobs", "requests", "stacks", "store"]

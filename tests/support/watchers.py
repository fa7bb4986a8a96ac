"""What the polls of watchers return."""

from __future__ import annotations

from constructs_optim.runtime import custom_resource
from constructs_optim.runtime.custom_resource import Output
from constructs_optim.runtime.requests.properties import Watch


def later(seconds: int) -> Output:
    """The output of a poll that waits for something for the first time."""
    return custom_resource.later(Watch(), seconds)
